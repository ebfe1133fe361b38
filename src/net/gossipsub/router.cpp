// SPDX-License-Identifier: Apache-2.0
#include "net/gossipsub/router.hpp"

#include "base/assert.hpp"
#include "base/queue.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace exo::net::gossipsub {

std::optional<Version> version_of(std::string_view protocol) {
    if (protocol == protocol_1_2) {
        return Version::v1_2;
    }
    if (protocol == protocol_1_1) {
        return Version::v1_1;
    }
    if (protocol == protocol_1_0) {
        return Version::v1_0;
    }
    return std::nullopt;
}

Router::Router(
    Identity identity,
    Random random,
    std::uint64_t first_sequence_number,
    TimePoint now,
    Limits limits
)
    : identity_(std::move(identity))
    , random_(random)
    , next_sequence_number_(first_sequence_number)
    , limits_(limits)
    , seen_(limits.duplicates_kept, limits.duplicates_max)
    , history_(limits.history_heartbeats, limits.history_bytes_max)
    , next_heartbeat_(now + limits.heartbeat_first) {
    EXO_ASSERT(limits_.mesh_low <= limits_.mesh_size);
    EXO_ASSERT(limits_.mesh_size <= limits_.mesh_high);
    EXO_ASSERT(limits_.outbox.queue_bytes_max >= limits_.rpc_bytes_max + message_overhead_bytes);
    EXO_ASSERT(limits_.outbox.rpc_bytes_packed <= limits_.rpc_bytes_max);
    EXO_ASSERT(
        limits_.outbox.rpc_bytes_packed >= 2 * limits_.id_bytes_max + limits_.topic_bytes_max
    );
}

// --- Calls of the driver ---

void Router::subscribe(std::string const& topic, TimePoint now) {
    if (!meshes_.emplace(topic, Mesh()).second) {
        return;
    }
    for (auto& [id, peer] : peers_) {
        peer.outbox.announce(topic, true);
    }
    fill_mesh(topic, now);
}

void Router::unsubscribe(std::string const& topic, TimePoint now) {
    auto const mesh = meshes_.find(topic);
    if (mesh == meshes_.end()) {
        return;
    }
    for (auto const& member : Mesh(mesh->second)) {
        drop(topic, member, limits_.unsubscribe_backoff, now);
    }
    meshes_.erase(topic);
    for (auto& [id, peer] : peers_) {
        peer.outbox.announce(topic, false);
    }
}

void Router::peer_connected(PeerId const& peer) {
    auto const [found, is_new] = peers_.try_emplace(peer, limits_.outbox);
    if (!is_new) {
        return;
    }
    announce_again(peer);
    auto const before = std::ranges::find(departed_, peer, &Departed::peer);
    if (before != departed_.end()) {
        found->second.topics = std::move(before->topics);
        found->second.topics_are_assumed = true;
        departed_.erase(before);
    }
}

void Router::peer_disconnected(PeerId const& peer) {
    if (auto const found = peers_.find(peer); found != peers_.end()) {
        remember(peer, std::move(found->second.topics));
        peers_.erase(found);
    }
    for (auto& [topic, mesh] : meshes_) {
        mesh.erase(peer);
    }
    // It will not answer any more; others may.
    std::erase_if(asked_, [&](auto const& entry) { return entry.second.peer == peer; });
}

void Router::remember(PeerId const& peer, std::set<std::string, std::less<>> topics) {
    if (topics.empty() || topics.size() > limits_.departed_topics_max) {
        return;
    }
    if (departed_.size() >= limits_.departed_max) {
        departed_.pop_front();
    }
    departed_.push_back({peer, std::move(topics)});
}

void Router::believe_no_more(PeerId const& from, Peer& peer) {
    for (auto const& topic : std::exchange(peer.topics, {})) {
        if (auto const mesh = meshes_.find(topic); mesh != meshes_.end()) {
            mesh->second.erase(from);
        }
    }
}

void Router::forget_messages() {
    departed_.clear();
    history_ = MessageCache(limits_.history_heartbeats, limits_.history_bytes_max);
}

void Router::peer_speaks(PeerId const& peer, Version version) {
    if (auto const found = peers_.find(peer); found != peers_.end()) {
        found->second.version = version;
    }
}

void Router::announce_again(PeerId const& peer) {
    auto const found = peers_.find(peer);
    if (found == peers_.end()) {
        return;
    }
    for (auto const& [topic, mesh] : meshes_) {
        found->second.outbox.announce(topic, true);
        if (mesh.contains(peer)) {
            found->second.outbox.graft(topic);
        }
    }
}

Result<void> Router::receive(PeerId const& from, BytesView bytes, TimePoint now) {
    auto const found = peers_.find(from);
    if (found == peers_.end()) {
        return {}; // Its last connection has gone while this was on the way.
    }
    auto const malformed = [&](std::string const& why) {
        ++counters_.rpcs_malformed;
        return Error(
            Errc::protocol,
            fmt::format("gossipsub: {} bytes of {} are no RPC: {}", bytes.size(), from.text(), why)
        );
    };
    if (bytes.size() > limits_.rpc_bytes_max) {
        return malformed(fmt::format("{} is the limit", limits_.rpc_bytes_max));
    }
    auto const rpc = read_rpc(bytes, limits_);
    if (!rpc) {
        return malformed(std::string(rpc.error().text()));
    }
    counters_.over_limit += rpc->is_cut ? 1 : 0;
    auto& peer = found->second;
    // Whoever announces its topics does so first of all.
    if (std::exchange(peer.topics_are_assumed, false) && !rpc->subscriptions.empty()) {
        believe_no_more(from, peer);
    }
    for (auto const& entry : rpc->subscriptions) {
        if (entry.subscribe) {
            on_subscribed(from, peer, entry.topic, now);
        } else {
            on_unsubscribed(from, peer, entry.topic);
        }
    }
    for (auto const& message : rpc->messages) {
        on_message(from, peer, message, now);
    }
    on_control(from, peer, *rpc, now);
    return {};
}

Result<void> Router::publish(std::string const& topic, BytesView data, TimePoint now) {
    auto const too_large = [&](std::size_t rpc_bytes) {
        return Error(
            Errc::limit,
            fmt::format(
                "a message of {} bytes on '{}' makes an RPC of {}; {} is the limit",
                data.size(),
                topic,
                rpc_bytes,
                limits_.rpc_bytes_max
            )
        );
    };
    if (data.size() > limits_.rpc_bytes_max) { // Not worth a signature.
        return too_large(data.size());
    }
    auto const message = sign_message(identity_, next_sequence_number_, topic, data);
    if (auto const size = rpc_bytes_of(message.encoded->size()); size > limits_.rpc_bytes_max) {
        return too_large(size);
    }
    ++next_sequence_number_;
    seen_.insert(message.id, now);
    history_.put(message);
    for (auto& [id, peer] : peers_) {
        if (peer.topics.contains(topic)) {
            peer.outbox.push(message.id, message.encoded, now + limits_.publish_age_max);
        }
    }
    return {};
}

std::optional<Bytes> Router::next_rpc(PeerId const& id, TimePoint now) {
    auto const found = peers_.find(id);
    if (found == peers_.end()) {
        return std::nullopt;
    }
    auto& peer = found->second;
    auto rpc = peer.outbox.take(peer.unwanted, now);
    peer.last_rpc = rpc ? now : peer.last_rpc;
    peer.told_due = TimePoint::max();
    counters_.queue_dropped += peer.outbox.take_dropped_count();
    EXO_ASSERT(!rpc || rpc->size() <= limits_.rpc_bytes_max);
    return rpc;
}

bool Router::has_rpc(PeerId const& peer) const {
    auto const found = peers_.find(peer);
    return found != peers_.end() && !found->second.outbox.empty();
}

TimePoint Router::rpc_due(PeerId const& peer) const {
    auto const found = peers_.find(peer);
    return found == peers_.end() ? TimePoint::max() : rpc_due(found->second);
}

TimePoint Router::rpc_due(Peer const& peer) const {
    if (peer.outbox.empty()) {
        return TimePoint::max();
    }
    bool const at_once = peer.outbox.is_urgent() || peer.last_rpc == TimePoint::min();
    return at_once ? TimePoint::min() : peer.last_rpc + limits_.forward_pause;
}

std::vector<PeerId> Router::peers_to_wake() {
    std::vector<PeerId> woken;
    for (auto& [id, peer] : peers_) {
        if (auto const due = rpc_due(peer); due < peer.told_due) {
            peer.told_due = due;
            woken.push_back(id);
        }
    }
    return woken;
}

std::vector<PeerId> Router::ready_peers() const {
    std::vector<PeerId> ready;
    for (auto const& [id, peer] : peers_) {
        if (!peer.outbox.empty()) {
            ready.push_back(id);
        }
    }
    return ready;
}

std::optional<Message> Router::next_event() {
    return take_front(events_);
}

std::set<PeerId> Router::mesh(std::string const& topic) const {
    auto const found = meshes_.find(topic);
    return found == meshes_.end() ? Mesh() : found->second;
}

std::set<PeerId> Router::subscribers(std::string const& topic) const {
    std::set<PeerId> ids;
    for (auto const& [id, peer] : peers_) {
        if (peer.topics.contains(topic)) {
            ids.insert(id);
        }
    }
    return ids;
}

// --- Messages ---

void Router::on_message(PeerId const& from, Peer& peer, BytesView bytes, TimePoint now) {
    if (peer.rejected >= limits_.rejected_max) {
        ++counters_.over_limit;
        return;
    }
    auto const message = parse_message(bytes);
    if (!message) {
        reject(peer);
        return;
    }
    if (message->author == identity_.peer_id() || !meshes_.contains(message->topic)) {
        return; // Ours has come back, or we have unsubscribed meanwhile.
    }
    if (seen_.contains(message->id)) {
        ++counters_.duplicates;
        // Where it still waits to be sent there, it need not be.
        if (peer.outbox.has_messages()) {
            unwant(peer, message->id, now);
        }
        return;
    }
    // Only now, and remembered only then: a forged copy must not hide the true one.
    auto verified = verify_message(*message);
    if (!verified) {
        reject(peer);
        return;
    }
    deliver(std::move(*verified), from, now);
}

void Router::reject(Peer& peer) {
    ++peer.rejected;
    ++counters_.messages_rejected;
}

void Router::deliver(SignedMessage message, PeerId const& from, TimePoint now) {
    seen_.insert(message.id, now);
    asked_.erase(message.id);
    history_.put(message);
    forward(message, from, now);
    events_.push_back({
        .topic = std::move(message.topic),
        .author = std::move(message.author),
        .data = std::move(message.data),
    });
}

void Router::forward(SignedMessage const& message, PeerId const& from, TimePoint now) {
    bool const is_large = message.data.size() > limits_.dont_want_data_bytes;
    for (auto const& member : meshes_.find(message.topic)->second) {
        if (member == from || member == message.author) {
            continue;
        }
        auto& peer = peers_.at(member);
        if (is_large && peer.version == Version::v1_2) {
            peer.outbox.dont_want(message.id);
        }
        auto const expiry = now + limits_.forward_age_max;
        peer.outbox.push(message.id, message.encoded, expiry, Outbox::Haste::may_wait);
    }
}

void Router::unwant(Peer& peer, std::string_view id, TimePoint now) {
    if (peer.unwanted.size() < limits_.ids_max) {
        peer.unwanted.insert_or_assign(MessageId(id), now + limits_.dont_want_kept);
    }
}

bool Router::within(std::size_t& count, std::size_t count_max) {
    if (count >= count_max) {
        ++counters_.over_limit;
        return false;
    }
    ++count;
    return true;
}

} // namespace exo::net::gossipsub
