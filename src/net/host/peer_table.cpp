// SPDX-License-Identifier: Apache-2.0
#include "net/host/peer_table.hpp"

#include "base/assert.hpp"

#include <algorithm>

namespace exo::net {

bool PeerTable::add(
    ConnectionPtr const& connection, std::string local_ip, Reach reach, TimePoint now
) {
    auto& peer = peers_[connection->peer()];
    peer.held.push_back({connection, now, ++last_id_, std::move(local_ip), reach});
    ++connection_count_;
    return peer.held.size() == 1;
}

bool PeerTable::remove(ConnectionPtr const& connection) {
    auto const found = peers_.find(connection->peer());
    EXO_ASSERT(found != peers_.end());
    auto const is_it = [&](Held const& held) { return held.connection == connection; };
    auto const removed = std::erase_if(found->second.held, is_it);
    EXO_ASSERT(removed == 1);
    --connection_count_;
    if (!found->second.held.empty()) {
        return false;
    }
    peers_.erase(found);
    return true;
}

void PeerTable::set_identity(PeerId const& peer, identify::Message message) {
    if (auto const found = peers_.find(peer); found != peers_.end()) {
        found->second.identity = std::move(message);
    }
}

identify::Message const* PeerTable::identity(PeerId const& peer) const {
    auto const found = peers_.find(peer);
    bool const known = found != peers_.end() && found->second.identity;
    return known ? &*found->second.identity : nullptr;
}

std::optional<PeerTable::Judged> PeerTable::judge(PeerId const& id, Peer const& peer) const {
    Judged judged;
    std::vector<HeldConnection> described;
    for (auto const& held : peer.held) {
        if (held.connection->is_open()) {
            judged.open.push_back(held);
            described.push_back(
                {.outbound = held.connection->info().outbound,
                 .direct_streams = held.connection->direct_streams(),
                 .rank = rank_of(held.reach)}
            );
        }
    }
    if (judged.open.empty()) {
        return std::nullopt;
    }
    judged.verdict = judge_connections(self_, id, kind_of(peer.identity), described);
    return judged;
}

ConnectionPtr PeerTable::preferred(PeerId const& peer) const {
    auto const found = peers_.find(peer);
    if (found == peers_.end()) {
        return nullptr;
    }
    auto const judged = judge(peer, found->second);
    return judged ? judged->open[judged->verdict.preferred].connection : nullptr;
}

std::vector<ConnectionPtr> PeerTable::to_close(TimePoint now) const {
    std::vector<ConnectionPtr> result;
    for (auto const& [id, peer] : peers_) {
        auto const judged = judge(id, peer);
        if (!judged) {
            continue;
        }
        auto const& [open, verdict] = *judged;
        for (auto const index : verdict.over_limit) {
            result.push_back(open[index].connection);
        }
        // The clock runs from when there was another one to use.
        auto const preferred_since = open[verdict.preferred].since;
        for (auto const index : verdict.surplus) {
            if (now >= std::max(open[index].since, preferred_since) + surplus_kept) {
                result.push_back(open[index].connection);
            }
        }
    }
    return result;
}

std::vector<PeerId> PeerTable::peers() const {
    std::vector<PeerId> result;
    for (auto const& [id, peer] : peers_) {
        result.push_back(id);
    }
    return result;
}

std::vector<ConnectionPtr> PeerTable::connections() const {
    std::vector<ConnectionPtr> result;
    for (auto const& [id, peer] : peers_) {
        for (auto const& held : peer.held) {
            result.push_back(held.connection);
        }
    }
    return result;
}

std::vector<ConnectionPtr> PeerTable::connections(PeerId const& peer) const {
    auto result = connections();
    std::erase_if(result, [&](ConnectionPtr const& one) { return one->peer() != peer; });
    return result;
}

PeerTable::Held const* PeerTable::find(Connection const& connection) const {
    auto const found = peers_.find(connection.peer());
    if (found == peers_.end()) {
        return nullptr;
    }
    auto const& held = found->second.held;
    auto const is_it = [&](Held const& one) { return one.connection.get() == &connection; };
    auto const one = std::ranges::find_if(held, is_it);
    return one == held.end() ? nullptr : &*one;
}

Reach PeerTable::best_reach(PeerId const& peer) const {
    auto const found = peers_.find(peer);
    EXO_ASSERT(found != peers_.end());
    auto const rank = [](Held const& held) { return rank_of(held.reach); };
    return std::ranges::min_element(found->second.held, {}, rank)->reach;
}

std::string PeerTable::local_ip(Connection const& connection) const {
    auto const* const held = find(connection);
    return held == nullptr ? "" : held->local_ip;
}

ConnectionFacts PeerTable::facts_of(Held const& held) {
    auto const& info = held.connection->info();
    auto const remote = info.remote.tcp_target();
    return {
        .id = held.id,
        .peer = info.peer,
        .remote_ip = remote ? remote->host : "",
        .remote_tcp_port = remote ? remote->port : std::uint16_t{0},
        .outbound = info.outbound,
        .since = held.since,
    };
}

ConnectionFacts PeerTable::facts_of(Connection const& connection) const {
    auto const* const held = find(connection);
    EXO_ASSERT(held != nullptr);
    return facts_of(*held);
}

std::vector<ConnectionFacts> PeerTable::facts() const {
    std::vector<ConnectionFacts> result;
    for (auto const& [id, peer] : peers_) {
        for (auto const& held : peer.held) {
            result.push_back(facts_of(held));
        }
    }
    return result;
}

PeerKind kind_of(std::optional<identify::Message> const& identity) {
    if (!identity) {
        return PeerKind::unknown;
    }
    auto const is_exo = [](std::string const& protocol) { return protocol.starts_with("/exo/"); };
    bool const exo = std::ranges::any_of(identity->protocols, is_exo) ||
                     identity->agent_version.starts_with("exo/");
    return exo ? PeerKind::exo : PeerKind::foreign;
}

} // namespace exo::net
