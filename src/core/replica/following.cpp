// SPDX-License-Identifier: Apache-2.0
//
// Following the session of another (S5-S7): its events in order, and what was missed of them.
#include "core/replica/parts.hpp"

#include <algorithm>

namespace exo::replica {
namespace {

// Applies what is buffered and next.
void drain(Parts& parts) {
    auto& ahead = parts.following.ahead;
    while (!ahead.empty()) {
        auto const first = ahead.begin();
        auto const index = first->first;
        if (index > parts.log.position().index + 1) {
            return;
        }
        if (index == parts.log.position().index + 1) {
            auto const applied = apply_record(parts, first->second);
            if (!applied && !in_target_session(parts)) {
                return; // The range or snapshot that is to come decides what fits.
            }
            parts.following.wants_snapshot |= !applied;
        }
        ahead.erase(first);
    }
}

[[nodiscard]] bool has_gap(Parts const& parts) {
    auto const& following = parts.following;
    if (!following.target || !parts.joining.accepted) {
        return false;
    }
    auto const furthest = following.ahead.empty() ? -1 : following.ahead.rbegin()->first;
    return !in_target_session(parts) || following.wants_snapshot ||
           std::max(following.head, furthest) > parts.log.position().index;
}

// Who can have what we miss: the master in a small cluster, else any node that is further.
[[nodiscard]] std::optional<model::NodeId> choose_source(Parts& parts) {
    auto const& target = *parts.following.target;
    std::vector<model::NodeId> sources;
    for (auto const& [node_id, peer] : parts.peers) {
        bool const is_further =
            !in_target_session(parts) || peer.applied > parts.log.position().index;
        if (peer.session == target && is_further) {
            sources.push_back(node_id);
        }
    }
    bool const master_connected = parts.peers.contains(target.master_node_id);
    bool const small = parts.peers.size() < small_cluster;
    if (master_connected && (small || sources.empty())) {
        return target.master_node_id;
    }
    if (sources.empty()) {
        return std::nullopt;
    }
    return sources[parts.random.below(sources.size())];
}

} // namespace

bool in_target_session(Parts const& parts) {
    return parts.following.target && parts.log.session() == parts.following.target;
}

void follow(Parts& parts) {
    auto const& standing = parts.election.standing;
    auto const other = elected_other(parts);
    if (!other) {
        parts.following = {};
        parts.joining.request.reset();
        return;
    }
    if (parts.following.target && parts.following.target->master_node_id != other) {
        parts.following = {};
        parts.joining.request.reset();
    }
    if (!standing || !standing->session) {
        return; // It still recovers; State stays readable.
    }
    if (parts.following.target != standing->session) {
        parts.following = {.target = standing->session};
        begin_join(parts, *standing->session);
        hurry_commands(parts);
    }
    parts.following.head = std::max(parts.following.head, standing->head);
    parts.had_session |= in_target_session(parts);
}

void repair_gap(Parts& parts) {
    auto& following = parts.following;
    if (!has_gap(parts)) {
        following.gap_at.reset();
        following.gap_delay = gap_delay_min;
        return;
    }
    if (!following.gap_at) {
        following.gap_at = parts.now + gap_delay_min;
    }
    if (parts.now < *following.gap_at) {
        return;
    }
    following.gap_at = parts.now + following.gap_delay;
    following.gap_delay = std::min(following.gap_delay * 2, gap_delay_max);
    if (auto const source = choose_source(parts)) {
        send(
            parts,
            *source,
            RangeRequest{*following.target, parts.log.position(), following.wants_snapshot}
        );
    }
}

void on_record(Parts& parts, model::NodeId const& from, Record const& record) {
    auto& following = parts.following;
    auto const& session = record.position.session;
    if (session != following.target || session.master_node_id != from ||
        record.position.index <= parts.log.position().index) {
        drop(parts); // S5
        return;
    }
    if (following.ahead.size() >= ahead_max) {
        ++parts.counters.events_ahead_dropped;
        return;
    }
    following.ahead.emplace(record.position.index, record);
    drain(parts);
}

void take_records(Parts& parts, std::vector<Record> const& records) {
    for (auto const& record : records) {
        if (record.position.index <= parts.log.position().index) {
            continue; // It came by topic in the meantime.
        }
        if (!apply_record(parts, record)) {
            drop(parts);
            parts.following.wants_snapshot = parts.following.target.has_value();
            return;
        }
    }
}

void on_range_request(Parts& parts, model::NodeId const& from, RangeRequest const& request) {
    RangeAnswer answer{.session = request.session};
    if (parts.log.session() == request.session) {
        if (request.snapshot) {
            answer.snapshot = parts.log.snapshot();
        } else {
            auto range = parts.log.after(request.after);
            answer.records = std::move(range.records);
            answer.snapshot = std::move(range.snapshot);
        }
    }
    send(parts, from, std::move(answer));
}

void on_range_answer(Parts& parts, RangeAnswer const& answer) {
    auto& following = parts.following;
    if (answer.session != following.target) {
        drop(parts);
        return;
    }
    auto const before = parts.log.position();
    if (answer.snapshot) {
        auto const& position = answer.snapshot->position;
        bool const wanted =
            !in_target_session(parts) || following.wants_snapshot || position.index > before.index;
        if (position.session != following.target || !wanted ||
            !install_snapshot(parts, *answer.snapshot)) {
            drop(parts);
            return;
        }
        following.wants_snapshot = false;
    }
    take_records(parts, answer.records);
    drain(parts);
    if (parts.log.position() != before) {
        following.gap_at = parts.now; // There is progress; if more is missing, ask at once.
        following.gap_delay = gap_delay_min;
    }
}

} // namespace exo::replica
