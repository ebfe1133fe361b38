// SPDX-License-Identifier: Apache-2.0
#include "net/gossipsub/outbox.hpp"

#include "base/assert.hpp"
#include "net/gossipsub/rpc.pb.h"
#include "net/wire/varint.hpp"

#include <chrono>
#include <utility>

namespace exo::net::gossipsub {
namespace {

constexpr std::uint8_t publish_tag = 2 << 3 | 2; // Field 2 of Rpc, with a length.
constexpr std::size_t id_overhead_bytes = 3;     // Its tag and length in a list.

void append_rpc(Bytes& to, pb::Rpc const& rpc) {
    append(to, as_bytes(rpc.SerializeAsString()));
}

void append_message(Bytes& rpc, BytesView encoded) {
    rpc.push_back(publish_tag);
    append_varint(rpc, encoded.size());
    append(rpc, encoded);
}

template <class To>
void move_ids(std::vector<MessageId>& ids, To& to) {
    for (auto& id : std::exchange(ids, {})) {
        to.add_ids(std::move(id));
    }
}

} // namespace

std::size_t rpc_bytes_of(std::size_t message_bytes) {
    Bytes length;
    append_varint(length, message_bytes);
    return 1 + length.size() + message_bytes;
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
    if (gossip_bytes_ + bytes_count > gossip_bytes_max) {
        return false;
    }
    gossip_bytes_ += bytes_count;
    return true;
}

std::size_t Outbox::push(
    MessageId const& id, std::shared_ptr<Bytes const> encoded, TimePoint now, std::size_t bytes_max
) {
    EXO_ASSERT(encoded->size() <= bytes_max);
    std::size_t dropped = 0;
    while (bytes_count_ + encoded->size() > bytes_max) {
        pop_message();
        ++dropped;
    }
    bytes_count_ += encoded->size();
    messages_.push_back({.id = id, .encoded = std::move(encoded), .since = now});
    return dropped;
}

std::size_t Outbox::drop_before(TimePoint time) {
    std::size_t dropped = 0;
    while (!messages_.empty() && messages_.front().since < time) {
        pop_message();
        ++dropped;
    }
    return dropped;
}

void Outbox::pop_message() {
    EXO_ASSERT(!messages_.empty());
    bytes_count_ -= messages_.front().encoded->size();
    messages_.pop_front();
}

bool Outbox::has_control() const {
    return !mesh_changes_.empty() || !ihave_.empty() || !iwant_.empty() || !dont_want_.empty();
}

bool Outbox::empty() const {
    return announcements_.empty() && messages_.empty() && !has_control();
}

std::optional<Bytes> Outbox::take(std::map<MessageId, TimePoint> const& unwanted) {
    // The peer reads subscriptions, messages and control in this order, whatever ours is. A GRAFT
    // without the subscription before it is thrown away by rust, so they may not be parted.
    Bytes rpc;
    take_announcements(rpc);
    append(rpc, take_control());
    take_messages(rpc, unwanted);
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
    for (auto& [topic, ids] : std::exchange(ihave_, {})) {
        auto& ihave = *control.add_ihave();
        ihave.set_topic(topic);
        move_ids(ids, ihave);
    }
    if (!iwant_.empty()) {
        move_ids(iwant_, *control.add_iwant());
    }
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
    if (!dont_want_.empty()) {
        move_ids(dont_want_, *control.add_idontwant());
    }
    gossip_bytes_ = 0;
    Bytes bytes;
    append_rpc(bytes, part);
    return bytes;
}

void Outbox::take_messages(Bytes& rpc, std::map<MessageId, TimePoint> const& unwanted) {
    while (!messages_.empty()) {
        auto const& next = messages_.front();
        if (!unwanted.contains(next.id)) {
            bool const fits = rpc.size() + rpc_bytes_of(next.encoded->size()) <= rpc_bytes_packed;
            if (!rpc.empty() && !fits) {
                return;
            }
            append_message(rpc, *next.encoded);
        }
        pop_message();
    }
}

} // namespace exo::net::gossipsub
