// SPDX-License-Identifier: Apache-2.0
//
// The part of the Router that decides who is told what: subscriptions, the mesh, gossip, and the
// heartbeat that keeps them in order.
#include "base/assert.hpp"
#include "net/gossipsub/router.hpp"

#include <algorithm>
#include <ranges>

namespace exo::net::gossipsub {

// --- What an RPC holds ---

void Router::on_subscribed(PeerId const& from, Peer& peer, Topic topic, TimePoint now) {
    if (topic.size() > limits_.topic_bytes_max ||
        (peer.topics.size() >= limits_.topics_max && !peer.topics.contains(topic))) {
        ++counters_.over_limit;
        return;
    }
    peer.topics.emplace(topic);
    // At once, not at the heartbeat: what is published meanwhile would be lost.
    auto const mesh = meshes_.find(topic);
    if (mesh != meshes_.end() && mesh->second.size() < limits_.mesh_low &&
        !mesh->second.contains(from) && may_graft(mesh->first, from, now)) {
        join(mesh->first, from);
    }
}

void Router::on_unsubscribed(PeerId const& from, Peer& peer, Topic topic) {
    if (auto const found = peer.topics.find(topic); found != peer.topics.end()) {
        peer.topics.erase(found);
    }
    if (auto const mesh = meshes_.find(topic); mesh != meshes_.end()) {
        mesh->second.erase(from);
    }
}

void Router::on_control(PeerId const& from, Peer& peer, ReceivedRpc const& rpc, TimePoint now) {
    for (auto const& ihave : rpc.ihave) {
        on_ihave(from, peer, ihave, now);
    }
    for (auto const& id : rpc.iwant) {
        on_iwant(peer, id, now);
    }
    for (auto const& topic : rpc.graft) {
        on_graft(from, peer, topic, now);
    }
    for (auto const& prune : rpc.prune) {
        on_prune(from, prune, now);
    }
    for (auto const& id : rpc.dont_want) {
        on_dont_want(peer, id, now);
    }
}

void Router::on_ihave(
    PeerId const& from, Peer& peer, ReceivedRpc::IHave const& ihave, TimePoint now
) {
    if (!within(peer.ihaves, limits_.ihave_max) || !meshes_.contains(ihave.topic)) {
        return;
    }
    for (auto const& id : ihave.ids | std::views::take(limits_.ids_max)) {
        if (id.size() > limits_.id_bytes_max || seen_.contains(id) || asked_.contains(id)) {
            continue;
        }
        if (!within(peer.ids_asked, limits_.ids_max)) {
            return;
        }
        auto const asked = asked_.emplace(id, Asked{from, now + limits_.iwant_wait}).first;
        peer.outbox.iwant(asked->first);
    }
}

void Router::on_iwant(Peer& peer, std::string_view id, TimePoint now) {
    if (!within(peer.ids_wanted, limits_.ids_max)) {
        return;
    }
    auto const bytes = history_.find(id);
    if (!bytes) {
        return;
    }
    auto sent = peer.retransmitted.find(id);
    if (sent == peer.retransmitted.end()) {
        if (peer.retransmitted.size() >= limits_.ids_max) {
            ++counters_.over_limit;
            return;
        }
        sent = peer.retransmitted.emplace(id, 0).first;
    }
    if (sent->second < limits_.retransmissions_max) {
        ++sent->second;
        peer.outbox.push(sent->first, bytes, now + limits_.publish_age_max);
    }
}

void Router::on_graft(PeerId const& from, Peer& peer, Topic topic, TimePoint now) {
    auto const mesh = meshes_.find(topic);
    // No answer for a topic that we do not have (it would tell which we have), nor for one that
    // the sender has not subscribed to (rust).
    if (!within(peer.grafts, limits_.grafts_max) || mesh == meshes_.end() ||
        !peer.topics.contains(topic) || mesh->second.contains(from)) {
        return;
    }
    if (now < backoff_end(mesh->first, from) || mesh->second.size() >= limits_.mesh_high) {
        drop(mesh->first, from, limits_.prune_backoff, now);
        return;
    }
    mesh->second.insert(from);
}

void Router::on_prune(PeerId const& from, ReceivedRpc::Prune const& prune, TimePoint now) {
    auto const mesh = meshes_.find(prune.topic);
    if (mesh == meshes_.end()) {
        return;
    }
    auto const most = std::chrono::floor<std::chrono::seconds>(limits_.backoff_max).count();
    auto const seconds =
        std::min(prune.backoff_seconds, static_cast<std::uint64_t>(most)); // 1.0 has none.
    bool const is_given = prune.backoff_seconds > 0;
    mesh->second.erase(from);
    set_backoff(
        mesh->first, from, now + (is_given ? std::chrono::seconds(seconds) : limits_.prune_backoff)
    );
}

void Router::on_dont_want(Peer& peer, std::string_view id, TimePoint now) {
    if (id.size() <= limits_.id_bytes_max && within(peer.ids_unwanted, limits_.ids_max)) {
        unwant(peer, id, now);
    }
}

// --- The mesh ---

void Router::join(std::string const& topic, PeerId const& peer) {
    auto& mesh = meshes_.at(topic);
    mesh.insert(peer);
    EXO_ASSERT(mesh.size() <= limits_.mesh_high);
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

void Router::set_backoff(std::string const& topic, PeerId const& peer, TimePoint until) {
    auto const [backoff, is_new] = backoffs_.try_emplace({topic, peer}, until);
    backoff->second = std::max(backoff->second, until);
    if (backoffs_.size() > limits_.backoffs_max) {
        backoffs_.erase(std::ranges::min_element(backoffs_, {}, [](auto const& entry) {
            return entry.second;
        }));
    }
}

TimePoint Router::backoff_end(std::string const& topic, PeerId const& peer) const {
    auto const found = backoffs_.find({topic, peer});
    return found == backoffs_.end() ? TimePoint::min() : found->second;
}

// We. The peer's backoff ends a little later than ours, so that we wait a little longer than we
// would refuse a GRAFT of its.
bool Router::may_graft(std::string const& topic, PeerId const& peer, TimePoint now) const {
    auto const found = backoffs_.find({topic, peer});
    return found == backoffs_.end() || found->second + limits_.backoff_slack <= now;
}

// --- The heartbeat ---

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

// Tells some peers outside the mesh what has come lately: how a message gets around a bad mesh.
void Router::gossip(std::string const& topic) {
    auto peers = outsiders(topic);
    if (peers.empty()) {
        return;
    }
    auto const ids = history_.ids(topic, limits_.gossip_heartbeats);
    if (ids.empty()) {
        return;
    }
    choose(peers, std::max(limits_.gossip_peers, peers.size() / 4));
    auto const count = std::min(ids.size(), limits_.ids_max);
    std::vector<MessageId> const newest(ids.end() - static_cast<std::ptrdiff_t>(count), ids.end());
    for (auto const& peer : peers) {
        peers_.at(peer).outbox.ihave(topic, newest);
    }
}

void Router::expire(TimePoint now) {
    seen_.expire(now);
    std::erase_if(asked_, [now](auto const& entry) { return entry.second.until <= now; });
    std::erase_if(backoffs_, [&](auto const& entry) {
        return entry.second + limits_.backoff_slack <= now;
    });
    for (auto& [id, peer] : peers_) {
        expire(peer, now);
    }
}

void Router::expire(Peer& peer, TimePoint now) {
    peer.outbox.drop_expired(now);
    counters_.queue_dropped += peer.outbox.take_dropped_count();
    std::erase_if(peer.unwanted, [now](auto const& entry) { return entry.second <= now; });
    std::erase_if(peer.retransmitted, [this](auto const& entry) {
        return !history_.find(entry.first);
    });
    peer.ihaves = 0;
    peer.ids_asked = 0;
    peer.ids_wanted = 0;
    peer.ids_unwanted = 0;
    peer.grafts = 0;
    peer.rejected = 0;
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

} // namespace exo::net::gossipsub
