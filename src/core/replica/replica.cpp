// SPDX-License-Identifier: Apache-2.0
#include "core/replica/replica.hpp"

#include "base/assert.hpp"
#include "base/overloaded.hpp"
#include "core/replica/parts.hpp"

#include <algorithm>

namespace exo::replica {
namespace {

// Sizes that are worth measuring: the others are small, or much smaller than the limit.
[[nodiscard]] bool fits_topic(Gossip const& gossip) {
    return std::visit(
        Overloaded{
            // Its text is a string in a string there, where quotes take two bytes.
            [](Record const& record) { return record.event.size() * 2 + 1024 < gossip_bytes_max; },
            [](ElectionMessage const&) { return true; },
            [](Beat const&) { return true; },
            [&](auto const&) { return encode_gossip(gossip).size() <= gossip_bytes_max; },
        },
        gossip.message
    );
}

[[nodiscard]] std::string_view topic_of(Message const& message) {
    if (std::holds_alternative<ElectionMessage>(message)) {
        return election_messages_topic;
    }
    return protocol_of(message) == command_protocol ? commands_topic : local_events_topic;
}

} // namespace

// --- What all concerns use ---

void send(Parts& parts, model::NodeId const& to, Message message) {
    parts.outputs.push_back(Send{to, std::move(message)});
}

void send_or_publish(Parts& parts, model::NodeId const& to, Message message) {
    EXO_ASSERT(to != parts.config.self);
    if (parts.peers.contains(to)) {
        send(parts, to, std::move(message));
    } else {
        auto const topic = topic_of(message);
        publish(parts, topic, {to, std::move(message)});
    }
}

void publish(Parts& parts, std::string_view topic, Gossip gossip) {
    if (fits_topic(gossip)) {
        parts.outputs.push_back(Publish{topic, std::move(gossip)});
    } else if (std::holds_alternative<model::NodeInfo>(gossip.message)) {
        for (auto const& [node_id, peer] : parts.peers) {
            send(parts, node_id, gossip.message);
        }
    } else if (!std::holds_alternative<Record>(gossip.message)) {
        drop(parts);
    }
}

void drop(Parts& parts) {
    ++parts.counters.messages_dropped;
}

Result<void> apply_record(Parts& parts, Record record) {
    EXO_TRY(parts.log.append(record));
    parts.outputs.push_back(EventAppended{std::move(record)});
    parts.state_changed = true;
    parts.worker.dirty = true;
    if (parts.leadership) {
        parts.leadership->duties_at = parts.now;
    }
    return {};
}

Result<void> install_snapshot(Parts& parts, Snapshot snapshot) {
    auto const before = parts.log.position();
    auto const position = snapshot.position;
    EXO_TRY(parts.log.install(std::move(snapshot)));
    ++parts.counters.snapshots_taken;
    if (!cluster::in_lineage(parts.log.state(), before)) {
        ++parts.counters.forks_dropped;
    }
    parts.outputs.push_back(SnapshotInstalled{position});
    parts.state_changed = true;
    parts.worker.dirty = true;
    return {};
}

std::uint64_t uptime_ms(Parts const& parts) {
    auto const uptime =
        std::chrono::duration_cast<std::chrono::milliseconds>(parts.now - parts.started);
    return static_cast<std::uint64_t>(uptime.count());
}

namespace {

// --- Inputs ---

void on_peer_connected(Parts& parts, model::NodeId const& node_id) {
    if (node_id == parts.config.self || parts.peers.contains(node_id) ||
        parts.peers.size() >= nodes_max) {
        drop(parts);
        return;
    }
    parts.peers[node_id].heard = parts.now;
    parts.heard[node_id] = parts.now;
    vote(parts, election::PeerConnected{node_id});
    // At once: within the time of gathering the peer learns of the master that we follow.
    send_beat(parts, node_id);
    send_observations(parts, node_id);
}

void on_peer_disconnected(Parts& parts, model::NodeId const& node_id) {
    if (parts.peers.erase(node_id) == 0) {
        drop(parts);
        return;
    }
    if (parts.recovery) {
        parts.recovery->pending.erase(node_id);
    }
    vote(parts, election::PeerDisconnected{node_id});
}

void on_message(Parts& parts, MessageReceived const& in) {
    auto const& from = in.from;
    std::visit(
        Overloaded{
            [&](Beat const& m) { on_beat(parts, from, m, in.by_gossip); },
            [&](ElectionMessage const& m) { on_election_message(parts, from, m); },
            [&](CommandRequest const& m) { on_command_request(parts, from, m); },
            [&](CommandAnswer const& m) { on_command_answer(parts, from, m); },
            [&](LevelSubmission const& m) { on_submission(parts, from, m); },
            [&](model::NodeInfo const& m) { on_info(parts, from, m); },
            [&](Record const& m) { on_record(parts, from, m); },
            [&](JoinRequest const& m) { on_join_request(parts, from, m); },
            [&](JoinAccepted const& m) { on_join_accepted(parts, m); },
            [&](Rejoin const& m) { on_rejoin(parts, from, m); },
            [&](RangeRequest const& m) { on_range_request(parts, from, m); },
            [&](RangeAnswer const& m) { on_range_answer(parts, m); },
            [&](TailRequest const& m) { on_tail_request(parts, from, m); },
            [&](TailAnswer const& m) { on_tail_answer(parts, from, m); },
        },
        in.message
    );
}

void receive(Parts& parts, MessageReceived const& in) {
    if (in.from == parts.config.self) {
        note_own_id(parts, in.message, in.by_gossip);
        return;
    }
    if (in.by_gossip) {
        if (parts.heard.contains(in.from) || parts.heard.size() < nodes_max) {
            parts.heard[in.from] = parts.now;
        }
        if (in.to && *in.to != parts.config.self) {
            return;
        }
    } else {
        auto const peer = parts.peers.find(in.from);
        if (peer == parts.peers.end()) {
            drop(parts); // Its connection has gone in the meantime.
            return;
        }
        peer->second.heard = parts.now;
        parts.heard[in.from] = parts.now;
    }
    on_message(parts, in);
}

void take(Parts& parts, Input const& input) {
    std::visit(
        Overloaded{
            [&](Started) { vote(parts, election::Started{parts.config.stored_clock}); },
            [&](PeerConnected const& in) { on_peer_connected(parts, in.node_id); },
            [&](PeerDisconnected const& in) { on_peer_disconnected(parts, in.node_id); },
            [&](MessageReceived const& in) { receive(parts, in); },
            [&](CommandRequested const& in) { on_command_requested(parts, in); },
            [&](LevelsChanged const& in) { on_levels(parts, in); },
            [&](ObservationChanged const& in) { on_own_info(parts, in.info); },
            [&](Tick) {},
        },
        input
    );
}

// What the new time and situation ask for.
void proceed(Parts& parts) {
    vote(parts, election::Tick{});
    lead_if_elected(parts);
    follow(parts);
    repair_gap(parts);
    repeat_join(parts);
    do_duties(parts);
    repeat_commands(parts);
    submit_levels(parts);
    refresh_observations(parts);
    lose_silent_peers(parts);
    send_beats(parts);
}

// One thing leads to another: a session makes the report possible, which makes the levels possible.
void proceed_until_quiet(Parts& parts) {
    constexpr std::size_t rounds_max = 8; // What is left then is done at the next tick.
    for (std::size_t round = 0; round < rounds_max; ++round) {
        auto const position = parts.log.position();
        auto const elected = parts.election.elected;
        bool const led = parts.leadership.has_value();
        proceed(parts);
        if (parts.log.position() == position && parts.election.elected == elected &&
            parts.leadership.has_value() == led) {
            return;
        }
    }
}

[[nodiscard]] TimePoint next_deadline(Parts const& parts) {
    TimePoint next = std::min(election::deadline(parts.election), parts.beat_at);
    next = std::min({next, parts.info_at, parts.forget_at});
    next = std::min(next, leading_deadline(parts).value_or(next));
    next = std::min(next, parts.following.gap_at.value_or(next));
    if (parts.joining.request) {
        next = std::min(next, parts.joining.repeat_at);
    }
    if (!parts.worker.submitted.empty()) {
        next = std::min(next, parts.worker.submit_at);
    }
    for (auto const& [command_id, open] : parts.commands) {
        next = std::min({next, open.until, open.repeat_at});
    }
    for (auto const& [node_id, peer] : parts.peers) {
        next = peer.lost ? next : std::min(next, peer.heard + peer_lost_after);
    }
    return next;
}

} // namespace

// --- The class ---

Replica::Replica(Config config, TimePoint now)
    : parts_(std::make_unique<Parts>(std::move(config), now)) {}

Replica::~Replica() = default;
Replica::Replica(Replica&&) noexcept = default;
Replica& Replica::operator=(Replica&&) noexcept = default;

Outputs Replica::step(Input const& input, TimePoint now) {
    auto& parts = *parts_;
    EXO_ASSERT(now >= parts.now);
    EXO_ASSERT(std::holds_alternative<Started>(input) == (parts.election.clock == 0));
    parts.now = now;
    parts.heard[parts.config.self] = now;
    bool const was_settled = replica::settled(parts);
    take(parts, input);
    proceed_until_quiet(parts);
    if (auto const master = live_master(parts); master != parts.master) {
        parts.master = master;
        parts.outputs.push_back(MasterChanged{master});
    }
    if (std::exchange(parts.state_changed, false) || replica::settled(parts) != was_settled) {
        parts.outputs.push_back(StateChanged{});
    }
    return std::exchange(parts.outputs, {});
}

TimePoint Replica::deadline() const {
    return next_deadline(*parts_);
}

model::NodeId const& Replica::self() const {
    return parts_->config.self;
}

model::State const& Replica::state() const {
    return parts_->log.state();
}

model::Observations const& Replica::observations() const {
    return parts_->observations;
}

std::optional<model::NodeId> Replica::master() const {
    return parts_->master;
}

bool Replica::leading() const {
    return parts_->leadership.has_value();
}

bool Replica::settled() const {
    return replica::settled(*parts_);
}

std::optional<model::Session> Replica::session() const {
    return parts_->log.session();
}

model::Position Replica::position() const {
    return parts_->log.position();
}

std::string const& Replica::chain() const {
    return parts_->log.chain();
}

std::map<model::NodeId, TimePoint> const& Replica::heard() const {
    return parts_->heard;
}

std::set<model::NodeId> const& Replica::peers() const {
    return parts_->election.peers;
}

ElectionView Replica::election() const {
    auto const& election = parts_->election;
    return {
        .clock = election.clock,
        .seniority = election.seniority,
        .elected = election.elected,
        .campaigning = election.campaign.has_value(),
        .standing = election.standing,
    };
}

Counters const& Replica::counters() const {
    return parts_->counters;
}

} // namespace exo::replica
