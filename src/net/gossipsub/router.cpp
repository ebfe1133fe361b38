// SPDX-License-Identifier: Apache-2.0
#include "net/gossipsub/router.hpp"

#include "base/assert.hpp"
#include "net/gossipsub/rpc.pb.h"

#include <fmt/core.h>

#include <algorithm>
#include <ranges>

namespace exo::net::gossipsub {
namespace {

// How long a peer that was asked by IWANT has time before another one is.
constexpr Duration answer_time = 3s;

} // namespace

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
    EXO_ASSERT(limits_.queue_bytes_max >= limits_.rpc_bytes_max);
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
    if (peers_.try_emplace(peer).second) {
        announce_again(peer);
    }
}

void Router::peer_disconnected(PeerId const& peer) {
    peers_.erase(peer);
    for (auto& [topic, mesh] : meshes_) {
        mesh.erase(peer);
    }
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
    pb::Rpc rpc;
    if (bytes.size() > limits_.rpc_bytes_max ||
        !rpc.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
        ++counters_.rpcs_malformed;
        return Error(
            Errc::protocol,
            fmt::format("gossipsub: {} bytes of {} are no RPC", bytes.size(), from.text())
        );
    }
    auto& peer = found->second;
    for (auto const& entry : rpc.subscriptions()) {
        if (entry.subscribe()) {
            on_subscribed(from, peer, entry.topic(), now);
        } else {
            on_unsubscribed(from, peer, entry.topic());
        }
    }
    for (auto const& message : rpc.publish()) {
        on_message(from, as_bytes(message), now);
    }
    if (rpc.has_control()) {
        on_control(from, peer, rpc.control(), now);
    }
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
            send(peer, message.id, message.encoded, now);
        }
    }
    return {};
}

void Router::heartbeat(TimePoint now) {
    next_heartbeat_ = now + limits_.heartbeat_interval;
    expire(now);
    for (auto const& [topic, mesh] : meshes_) {
        if (mesh.size() < limits_.mesh_low) {
            fill_mesh(topic, now);
        }
        gossip(topic);
    }
    history_.shift();
}

std::optional<Bytes> Router::next_rpc(PeerId const& id, TimePoint now) {
    auto const found = peers_.find(id);
    if (found == peers_.end()) {
        return std::nullopt;
    }
    auto& peer = found->second;
    counters_.queue_dropped += peer.outbox.drop_before(now - limits_.queue_age_max);
    auto rpc = peer.outbox.take(peer.unwanted);
    EXO_ASSERT(!rpc || rpc->size() <= limits_.rpc_bytes_max);
    return rpc;
}

bool Router::has_rpc(PeerId const& peer) const {
    auto const found = peers_.find(peer);
    return found != peers_.end() && !found->second.outbox.empty();
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
    if (events_.empty()) {
        return std::nullopt;
    }
    auto event = std::move(events_.front());
    events_.pop_front();
    return event;
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

// --- What an RPC holds ---

void Router::on_subscribed(
    PeerId const& from, Peer& peer, std::string const& topic, TimePoint now
) {
    if (topic.size() > limits_.topic_bytes_max ||
        (peer.topics.size() >= limits_.topics_max && !peer.topics.contains(topic))) {
        ++counters_.over_limit;
        return;
    }
    peer.topics.insert(topic);
    // At once, not at the heartbeat: what is published meanwhile would be lost.
    auto const mesh = meshes_.find(topic);
    if (mesh != meshes_.end() && mesh->second.size() < limits_.mesh_low &&
        !mesh->second.contains(from) && may_graft(topic, from, now)) {
        join(topic, from);
    }
}

void Router::on_unsubscribed(PeerId const& from, Peer& peer, std::string const& topic) {
    peer.topics.erase(topic);
    if (auto const mesh = meshes_.find(topic); mesh != meshes_.end()) {
        mesh->second.erase(from);
    }
}

void Router::on_message(PeerId const& from, BytesView bytes, TimePoint now) {
    auto message = parse_message(bytes);
    if (!message) {
        ++counters_.messages_rejected;
        return;
    }
    if (message->author == identity_.peer_id() || !meshes_.contains(message->topic)) {
        return; // Ours has come back, or we have unsubscribed meanwhile.
    }
    if (seen_.contains(message->id)) {
        ++counters_.duplicates;
        return;
    }
    // Only now, and remembered only then: a forged copy must not hide the true one.
    auto verified = verify_message(std::move(*message));
    if (!verified) {
        ++counters_.messages_rejected;
        return;
    }
    seen_.insert(verified->id, now);
    asked_.erase(verified->id);
    history_.put(*verified);
    forward(*verified, from, now);
    events_.push_back({
        .topic = std::move(verified->topic),
        .author = verified->author,
        .data = std::move(verified->data),
    });
}

void Router::on_control(PeerId const& from, Peer& peer, pb::Control const& control, TimePoint now) {
    for (auto const& ihave : control.ihave()) {
        on_ihave(peer, ihave, now);
    }
    for (auto const& iwant : control.iwant()) {
        for (auto const& id : iwant.ids()) {
            on_iwant(peer, id, now);
        }
    }
    for (auto const& graft : control.graft()) {
        on_graft(from, peer, graft.topic(), now);
    }
    for (auto const& prune : control.prune()) {
        auto const most = static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::seconds>(limits_.backoff_max).count()
        );
        auto const seconds = std::chrono::seconds(std::min(prune.backoff_seconds(), most));
        bool const is_given = prune.backoff_seconds() > 0; // 1.0 has none.
        on_prune(from, prune.topic(), is_given ? seconds : limits_.prune_backoff, now);
    }
    for (auto const& dont_want : control.idontwant()) {
        for (auto const& id : dont_want.ids()) {
            on_dont_want(peer, id, now);
        }
    }
}

void Router::on_ihave(Peer& peer, pb::IHave const& ihave, TimePoint now) {
    if (!within(peer.ihaves, limits_.ihave_max) || !meshes_.contains(ihave.topic())) {
        return;
    }
    for (auto const& id : ihave.ids()) {
        if (id.size() > limits_.id_bytes_max || seen_.contains(id) || asked_.contains(id)) {
            continue;
        }
        if (!within(peer.ids_asked, limits_.ids_max)) {
            return;
        }
        asked_[id] = now + answer_time;
        peer.outbox.iwant(id);
    }
}

void Router::on_iwant(Peer& peer, MessageId const& id, TimePoint now) {
    if (!within(peer.ids_wanted, limits_.ids_max)) {
        return;
    }
    auto const bytes = history_.find(id);
    if (bytes && peer.retransmitted[id]++ < limits_.retransmissions_max) {
        send(peer, id, bytes, now);
    }
}

void Router::on_graft(PeerId const& from, Peer& peer, std::string const& topic, TimePoint now) {
    auto const mesh = meshes_.find(topic);
    // No answer for a topic that we do not have (it would tell which we have), nor for one that
    // the sender has not subscribed to (rust).
    if (!within(peer.grafts, limits_.grafts_max) || mesh == meshes_.end() ||
        !peer.topics.contains(topic) || mesh->second.contains(from)) {
        return;
    }
    if (!may_graft(topic, from, now) || mesh->second.size() >= limits_.mesh_high) {
        drop(topic, from, limits_.prune_backoff, now);
        return;
    }
    mesh->second.insert(from);
}

void Router::on_prune(
    PeerId const& from, std::string const& topic, Duration backoff, TimePoint now
) {
    if (auto const mesh = meshes_.find(topic); mesh != meshes_.end()) {
        mesh->second.erase(from);
        set_backoff(topic, from, now + backoff);
    }
}

void Router::on_dont_want(Peer& peer, MessageId const& id, TimePoint now) {
    if (id.size() <= limits_.id_bytes_max && within(peer.ids_unwanted, limits_.ids_max)) {
        peer.unwanted[id] = now + answer_time;
    }
}

// --- What we send ---

void Router::forward(SignedMessage const& message, PeerId const& from, TimePoint now) {
    bool const is_large = message.data.size() > limits_.dont_want_data_bytes;
    for (auto const& member : meshes_.at(message.topic)) {
        if (member == from || member == message.author) {
            continue;
        }
        auto& peer = peers_.at(member);
        if (is_large && peer.version == Version::v1_2) {
            peer.outbox.dont_want(message.id);
        }
        send(peer, message.id, message.encoded, now);
    }
}

void Router::send(
    Peer& peer, MessageId const& id, std::shared_ptr<Bytes const> bytes, TimePoint now
) {
    auto const dropped = peer.outbox.push(id, std::move(bytes), now, limits_.queue_bytes_max);
    counters_.queue_dropped += dropped;
}

void Router::join(std::string const& topic, PeerId const& peer) {
    meshes_.at(topic).insert(peer);
    peers_.at(peer).outbox.graft(topic);
}

// Out of the mesh, if it was there, and told so.
void Router::drop(std::string const& topic, PeerId const& peer, Duration backoff, TimePoint now) {
    meshes_.at(topic).erase(peer);
    peers_.at(peer).outbox.prune(topic, backoff);
    set_backoff(topic, peer, now + backoff);
}

void Router::fill_mesh(std::string const& topic, TimePoint now) {
    auto candidates = outsiders(topic);
    std::erase_if(candidates, [&](PeerId const& peer) { return !may_graft(topic, peer, now); });
    choose(candidates, limits_.mesh_size - meshes_.at(topic).size());
    for (auto const& peer : candidates) {
        join(topic, peer);
    }
}

// Tells some peers outside the mesh what has come lately: how a message gets around a bad mesh.
void Router::gossip(std::string const& topic) {
    auto const ids = history_.ids(topic, limits_.gossip_heartbeats);
    if (ids.empty()) {
        return;
    }
    auto peers = outsiders(topic);
    choose(peers, std::max(limits_.gossip_peers, peers.size() / 4));
    auto const count = std::min(ids.size(), limits_.ids_max);
    std::vector<MessageId> const newest(ids.end() - static_cast<std::ptrdiff_t>(count), ids.end());
    for (auto const& peer : peers) {
        peers_.at(peer).outbox.ihave(topic, newest);
    }
}

void Router::expire(TimePoint now) {
    auto const is_over = [now](auto const& entry) { return entry.second <= now; };
    seen_.expire(now);
    std::erase_if(asked_, is_over);
    std::erase_if(backoffs_, is_over);
    for (auto& [id, peer] : peers_) {
        counters_.queue_dropped += peer.outbox.drop_before(now - limits_.queue_age_max);
        std::erase_if(peer.unwanted, is_over);
        std::erase_if(peer.retransmitted, [this](auto const& entry) {
            return !history_.find(entry.first);
        });
        peer.ihaves = 0;
        peer.ids_asked = 0;
        peer.ids_wanted = 0;
        peer.ids_unwanted = 0;
        peer.grafts = 0;
    }
}

void Router::set_backoff(std::string const& topic, PeerId const& peer, TimePoint until) {
    auto& backoff = backoffs_[{topic, peer}];
    backoff = std::max(backoff, until);
}

bool Router::may_graft(std::string const& topic, PeerId const& peer, TimePoint now) const {
    auto const found = backoffs_.find({topic, peer});
    return found == backoffs_.end() || found->second <= now;
}

// Subscribers that are not in our mesh, in the order of their ids.
std::vector<PeerId> Router::outsiders(std::string const& topic) const {
    auto const& mesh = meshes_.at(topic);
    std::vector<PeerId> found;
    for (auto const& [id, peer] : peers_) {
        if (peer.topics.contains(topic) && !mesh.contains(id)) {
            found.push_back(id);
        }
    }
    return found;
}

// Leaves at most so many, each with the same chance.
void Router::choose(std::vector<PeerId>& peers, std::size_t count_max) {
    auto const count = std::min(count_max, peers.size());
    for (std::size_t i = 0; i < count; ++i) {
        std::swap(peers[i], peers[i + random_.below(peers.size() - i)]);
    }
    peers.resize(count);
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
