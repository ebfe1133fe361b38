// SPDX-License-Identifier: Apache-2.0
//
// The election machine's inputs and outputs, as messages.
#include "base/overloaded.hpp"
#include "core/replica/parts.hpp"

#include <algorithm>

namespace exo::replica {
namespace {

[[nodiscard]] bool has_followers(Parts const& parts, model::Session const& session) {
    bool const by_beat = std::ranges::any_of(parts.peers, [&](auto const& entry) {
        return entry.second.session == session;
    });
    return by_beat || std::ranges::any_of(parts.log.state().members, [&](auto const& entry) {
               auto const heard = parts.heard.find(entry.first);
               return entry.first != parts.config.self && heard != parts.heard.end() &&
                      parts.now < heard->second + peer_lost_after;
           });
}

void carry_out(Parts& parts, election::Outputs const& outputs) {
    for (auto const& output : outputs) {
        std::visit(
            Overloaded{
                [&](election::StoreClock const& out) {
                    parts.outputs.push_back(StoreClock{out.clock});
                },
                [&](election::Announce const& out) {
                    auto message = election_message(out.ballot, out.standing, uptime_ms(parts));
                    publish(parts, election_messages_topic, {std::nullopt, std::move(message)});
                },
                [&](election::Answer const& out) {
                    send_or_publish(
                        parts, out.to, election_message(out.ballot, out.standing, uptime_ms(parts))
                    );
                },
                [&](election::Elected const& out) {
                    if (out.ballot.node_id != parts.config.self) {
                        parts.leadership.reset(); // F2: at once, whatever else this step does.
                        parts.recovery.reset();
                    }
                },
            },
            output
        );
    }
}

} // namespace

election::Facts facts(Parts const& parts) {
    election::Facts facts{
        .commands_seen = parts.log.state().commands_recorded,
        .head = parts.log.position().index,
    };
    if (parts.leadership) {
        facts.session = parts.leadership->session;
        facts.has_followers = has_followers(parts, parts.leadership->session);
    }
    return facts;
}

void vote(Parts& parts, election::Input const& input) {
    carry_out(parts, election::step(parts.election, input, facts(parts), parts.now));
    if (parts.election.campaign && parts.campaign_clock != parts.election.clock) {
        parts.campaign_clock = parts.election.clock;
        ++parts.counters.campaigns;
    }
}

void on_standing(Parts& parts, model::NodeId const& from, election::Standing const& standing) {
    if (standing.session && standing.session->master_node_id != standing.ballot.node_id) {
        drop(parts); // Nobody but a session's master leads it.
        return;
    }
    vote(parts, election::StandingReceived{from, standing});
}

void on_election_message(Parts& parts, model::NodeId const& from, ElectionMessage const& message) {
    if (message.standing) {
        on_standing(parts, from, *message.standing);
        return;
    }
    auto const ballot = ballot_of(message);
    if (ballot.node_id != from) {
        drop(parts); // Ballots are cast in person; only standings are passed on.
        return;
    }
    vote(parts, election::BallotReceived{from, ballot});
}

std::optional<model::NodeId> elected_other(Parts const& parts) {
    auto const& elected = parts.election.elected;
    return elected && elected->node_id != parts.config.self ? std::optional(elected->node_id)
                                                            : std::nullopt;
}

std::optional<model::NodeId> live_master(Parts const& parts) {
    if (parts.leadership) {
        return parts.config.self;
    }
    bool const alive = election::follows_live_master(parts.election, parts.now);
    return alive && parts.following.target ? elected_other(parts) : std::nullopt;
}

// Our own id in another's mouth. Topics may still carry what our earlier process said; a stream
// cannot (E13).
void note_own_id(Parts& parts, Message const& message, bool by_gossip) {
    if (by_gossip && parts.now < parts.started + former_self_time) {
        return;
    }
    model::Boot boot = parts.config.boot;
    std::uint64_t uptime = 0;
    if (auto const* const beat = std::get_if<Beat>(&message)) {
        boot = beat->boot;
        uptime = beat->uptime_ms;
    } else if (auto const* const election = std::get_if<ElectionMessage>(&message)) {
        boot = election->boot;
        uptime = election->uptime_ms;
    }
    if (boot == parts.config.boot || parts.copies.size() >= nodes_max ||
        !parts.copies.insert(boot).second) {
        return;
    }
    auto const ours = uptime_ms(parts);
    bool const give_way = ours != uptime ? ours < uptime : parts.config.boot < boot;
    parts.outputs.push_back(CopiedKey{boot, give_way});
}

} // namespace exo::replica
