// SPDX-License-Identifier: Apache-2.0
#include "net/gossipsub/outbox.hpp"

#include "base/assert.hpp"
#include "net/gossipsub/rpc.pb.h"
#include "net/wire/varint.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace exo::net::gossipsub {
namespace {

constexpr std::uint8_t publish_tag = 2 << 3 | 2; // Field 2 of Rpc, with a length.
constexpr std::size_t field_bytes = 4;           // A tag and the length of an id or a topic.

void append_rpc(Bytes& to, pb::Rpc const& rpc) {
    append(to, as_bytes(rpc.SerializeAsString()));
}

void append_message(Bytes& rpc, BytesView encoded) {
    rpc.push_back(publish_tag);
    append_varint(rpc, encoded.size());
    append(rpc, encoded);
}

bool fits(std::vector<MessageId> const& ids, std::size_t room) {
    return !ids.empty() && ids.back().size() + field_bytes <= room;
}

// Moves ids, the newest first, while there is room for them. Returns what they counted for.
template <class To>
std::size_t move_ids(std::vector<MessageId>& ids, To& to, std::size_t& room) {
    std::size_t counted = 0;
    while (fits(ids, room)) {
        room -= ids.back().size() + field_bytes;
        counted += ids.back().size() + id_overhead_bytes;
        to.add_ids(std::move(ids.back()));
        ids.pop_back();
    }
    return counted;
}

} // namespace

std::size_t rpc_bytes_of(std::size_t message_bytes) {
    Bytes length;
    append_varint(length, message_bytes);
    return 1 + length.size() + message_bytes;
}

void Outbox::announce(std::string const& topic, bool subscribed) {
    announcements_[topic] = subscribed;
    urgent_ = true;
}

void Outbox::graft(std::string const& topic) {
    mesh_changes_[topic] = std::nullopt;
    urgent_ = true;
}

void Outbox::prune(std::string const& topic, Duration backoff) {
    mesh_changes_[topic] = backoff;
    urgent_ = true;
}

void Outbox::ihave(std::string const& topic, std::vector<MessageId> const& ids) {
    for (auto const& id : ids) {
        if (has_room(id.size())) {
            ihave_[topic].push_back(id);
        }
    }
}

void Outbox::iwant(MessageId const& id) {
    if (has_room(id.size())) {
        iwant_.push_back(id);
    }
}

void Outbox::dont_want(MessageId const& id) {
    if (has_room(id.size())) {
        dont_want_.push_back(id);
    }
}

bool Outbox::has_room(std::size_t id_bytes) {
    auto const bytes_count = id_bytes + id_overhead_bytes;
    if (gossip_bytes_ + bytes_count > limits_.gossip_bytes_max) {
        return false;
    }
    gossip_bytes_ += bytes_count;
    urgent_ = true;
    return true;
}

void Outbox::push(
    MessageId const& id, std::shared_ptr<Bytes const> encoded, TimePoint expiry, Haste haste
) {
    auto const bytes_count = encoded->size() + message_overhead_bytes;
    EXO_ASSERT(bytes_count <= limits_.queue_bytes_max);
    while (bytes_count_ + bytes_count > limits_.queue_bytes_max) {
        pop_message();
        ++dropped_count_;
    }
    bytes_count_ += bytes_count;
    messages_.push_back({.id = id, .encoded = std::move(encoded), .expiry = expiry});
    urgent_ = urgent_ || haste == Haste::urgent;
}

void Outbox::drop_expired(TimePoint now) {
    dropped_count_ += std::erase_if(messages_, [&](Queued const& message) {
        bool const is_over = message.expiry < now;
        bytes_count_ -= is_over ? message.encoded->size() + message_overhead_bytes : 0;
        return is_over;
    });
}

void Outbox::pop_message() {
    EXO_ASSERT(!messages_.empty());
    bytes_count_ -= messages_.front().encoded->size() + message_overhead_bytes;
    messages_.pop_front();
}

bool Outbox::has_control() const {
    return !mesh_changes_.empty() || !ihave_.empty() || !iwant_.empty() || !dont_want_.empty();
}

bool Outbox::empty() const {
    return announcements_.empty() && messages_.empty() && !has_control();
}

std::optional<Bytes> Outbox::take(Unwanted const& unwanted, TimePoint now) {
    // The peer reads subscriptions, messages and control in this order, whatever ours is. A GRAFT
    // without the subscription before it is thrown away by rust, so they may not be parted.
    Bytes rpc;
    take_announcements(rpc);
    append(rpc, take_control());
    take_messages(rpc, unwanted, now);
    urgent_ = !empty(); // The rest of it follows at once.
    return rpc.empty() ? std::nullopt : std::optional(std::move(rpc));
}

void Outbox::take_announcements(Bytes& rpc) {
    pb::Rpc part;
    for (auto const& [topic, subscribed] : std::exchange(announcements_, {})) {
        auto& subscription = *part.add_subscriptions();
        subscription.set_subscribe(subscribed);
        subscription.set_topic(topic);
    }
    append_rpc(rpc, part);
}

Bytes Outbox::take_control() {
    if (!has_control()) {
        return {};
    }
    pb::Rpc part;
    auto& control = *part.mutable_control();
    take_gossip(control);
    take_mesh_changes(control);
    Bytes bytes;
    append_rpc(bytes, part);
    return bytes;
}

// As much as one RPC takes: what saves the most first.
void Outbox::take_gossip(pb::Control& control) {
    auto room = limits_.rpc_bytes_packed;
    if (fits(dont_want_, room)) {
        gossip_bytes_ -= move_ids(dont_want_, *control.add_idontwant(), room);
    }
    if (fits(iwant_, room)) {
        gossip_bytes_ -= move_ids(iwant_, *control.add_iwant(), room);
    }
    while (!ihave_.empty()) {
        auto const next = ihave_.begin();
        auto& [topic, ids] = *next;
        auto const topic_bytes = std::min(room, topic.size() + field_bytes);
        room -= topic_bytes;
        if (!fits(ids, room)) {
            return;
        }
        auto& ihave = *control.add_ihave();
        ihave.set_topic(topic);
        gossip_bytes_ -= move_ids(ids, ihave, room);
        if (!ids.empty()) {
            return;
        }
        ihave_.erase(next);
    }
}

void Outbox::take_mesh_changes(pb::Control& control) {
    for (auto const& [topic, backoff] : std::exchange(mesh_changes_, {})) {
        if (backoff) {
            auto& prune = *control.add_prune();
            auto const seconds = std::chrono::ceil<std::chrono::seconds>(*backoff).count();
            prune.set_topic(topic);
            prune.set_backoff_seconds(static_cast<std::uint64_t>(seconds));
        } else {
            control.add_graft()->set_topic(topic);
        }
    }
}

void Outbox::take_messages(Bytes& rpc, Unwanted const& unwanted, TimePoint now) {
    while (!messages_.empty()) {
        auto const& next = messages_.front();
        if (next.expiry < now) {
            ++dropped_count_;
        } else if (!unwanted.contains(next.id)) {
            auto const bytes_count = rpc_bytes_of(next.encoded->size());
            if (!rpc.empty() && rpc.size() + bytes_count > limits_.rpc_bytes_packed) {
                return;
            }
            append_message(rpc, *next.encoded);
        }
        pop_message();
    }
}

} // namespace exo::net::gossipsub
