// SPDX-License-Identifier: Apache-2.0
//
// Beats between connected nodes each 500 ms, and to a master that is not connected by topic (S11).
#include "core/replica/parts.hpp"

namespace exo::replica {
namespace {

[[nodiscard]] Beat make_beat(Parts& parts) {
    Beat beat{
        .boot = parts.config.boot,
        .uptime_ms = uptime_ms(parts),
        .report_id = parts.joining.report_id,
        .applied = parts.log.position().index,
        .ballot = parts.election.own,
        .standing = election::standing_for_beat(parts.election, facts(parts), parts.now),
    };
    if (parts.leadership) {
        beat.session = parts.leadership->session;
    } else if (in_target_session(parts) && parts.joining.accepted) {
        beat.session = parts.following.target;
    }
    return beat;
}

} // namespace

void send_beats(Parts& parts) {
    if (parts.now < parts.beat_at) {
        return;
    }
    parts.beat_at = parts.now + beat_interval;
    auto const beat = make_beat(parts);
    for (auto const& [node_id, peer] : parts.peers) {
        send(parts, node_id, beat);
    }
    auto const master = elected_other(parts);
    if (master && !parts.peers.contains(*master)) {
        send_or_publish(parts, *master, beat);
    }
}

void send_beat(Parts& parts, model::NodeId const& to) {
    send(parts, to, make_beat(parts));
}

void on_beat(Parts& parts, model::NodeId const& from, Beat const& beat, bool by_gossip) {
    if (beat.ballot.node_id != from) {
        drop(parts);
        return;
    }
    if (auto const peer = parts.peers.find(from); peer != parts.peers.end() && !by_gossip) {
        peer->second.session = beat.session;
        peer->second.applied = beat.applied;
    }
    if (beat.standing) {
        on_standing(parts, from, *beat.standing);
    }
    bool const informed =
        beat.standing && parts.election.elected && beat.standing->ballot >= *parts.election.elected;
    vote(parts, election::BallotReceived{from, beat.ballot, informed});
    ask_to_rejoin(parts, from, beat);
}

void lose_silent_peers(Parts& parts) {
    for (auto& [node_id, peer] : parts.peers) {
        if (!peer.lost && parts.now >= peer.heard + peer_lost_after) {
            peer.lost = true;
            parts.outputs.push_back(PeerLost{node_id});
        }
    }
}

} // namespace exo::replica
