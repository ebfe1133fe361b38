// SPDX-License-Identifier: Apache-2.0
//
// What nodes say of themselves: soft state, the newest of each node.
#include "core/replica/parts.hpp"

namespace exo::replica {
namespace {

void publish_own(Parts& parts) {
    auto const own = parts.observations.find(parts.config.self);
    if (own != parts.observations.end()) {
        parts.info_at = parts.now + info_interval;
        publish(parts, local_events_topic, {std::nullopt, own->second});
    }
}

// Boots are random and have no order: of another boot, the word of the node itself is the newer.
[[nodiscard]] bool
is_news(model::NodeInfo const* known, model::NodeInfo const& info, bool in_person) {
    if (!known) {
        return true;
    }
    return known->boot == info.boot ? info.sequence > known->sequence : in_person;
}

void forget_lost(Parts& parts) {
    auto const& members = parts.log.state().members;
    auto const forgotten = [&](model::NodeId const& node_id) {
        auto const heard = parts.heard.find(node_id);
        bool const silent = heard == parts.heard.end() || parts.now >= heard->second + info_kept;
        return silent && !members.contains(node_id) && node_id != parts.config.self;
    };
    auto const count = std::erase_if(parts.observations, [&](auto const& entry) {
        return forgotten(entry.first);
    });
    parts.state_changed |= count > 0;
    std::erase_if(parts.heard, [&](auto const& entry) { return forgotten(entry.first); });
}

} // namespace

void on_own_info(Parts& parts, model::NodeInfo info) {
    auto& own = parts.observations[parts.config.self];
    info.node_id = parts.config.self;
    info.boot = parts.config.boot;
    info.sequence = own.sequence + 1;
    own = std::move(info);
    parts.state_changed = true;
    publish_own(parts);
}

void on_info(Parts& parts, model::NodeId const& from, model::NodeInfo const& info) {
    auto const known = parts.observations.find(info.node_id);
    bool const is_known = known != parts.observations.end();
    bool const has_room = is_known || parts.observations.size() < nodes_max;
    if (info.node_id == parts.config.self || !has_room ||
        !is_news(is_known ? &known->second : nullptr, info, info.node_id == from)) {
        return;
    }
    parts.observations.insert_or_assign(info.node_id, info);
    // A placement may have become possible.
    if (parts.leadership && !is_known) {
        parts.leadership->duties_at = parts.now;
    }
    parts.state_changed = true;
}

void send_observations(Parts& parts, model::NodeId const& to) {
    for (auto const& [node_id, info] : parts.observations) {
        send(parts, to, info);
    }
}

void refresh_observations(Parts& parts) {
    if (parts.now >= parts.info_at) {
        parts.info_at = parts.now + info_interval;
        publish_own(parts);
    }
    // Has a time of its own: where the own info changes often, info_at is never reached.
    if (parts.now >= parts.forget_at) {
        parts.forget_at = parts.now + forget_interval;
        forget_lost(parts);
    }
}

} // namespace exo::replica
