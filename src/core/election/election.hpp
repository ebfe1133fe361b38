// SPDX-License-Identifier: Apache-2.0
//
// Master election as one pure step function (specs/cluster.md E1-E14).
//
// A change of peers opens a campaign with a new clock value. Every node collects the ballots of
// that clock until its deadline, or until all connected peers have voted, then elects the greatest.
// The elected master's standings, passed on from node to node, are its signs of life; without them
// a new campaign opens. A campaign suspends nothing: master and followers go on until someone else
// is elected.
//
// There is no socket, timer or disk here: replica::Replica delivers inputs, carries out the outputs
// in their order and comes back with Tick at `deadline(state)`.
//
// Invariants: `clock` never falls; `elected` never falls; a campaign is open exactly while
// `State::campaign` is set; every ballot in `ballots` is of `clock`.
#pragma once

#include "base/time.hpp"
#include "core/election/ballot.hpp"

#include <map>
#include <set>
#include <variant>
#include <vector>

namespace exo::election {

constexpr Duration gather_time = 200ms;      // E4
constexpr Duration campaign_time = 3s;       // DEFAULT_ELECTION_TIMEOUT of the seeds.
constexpr Duration standing_lost_after = 3s; // E10: six beats.
constexpr Duration answer_interval = 500ms;  // E9
constexpr Duration standing_interval = 1s;   // E7, on the topic.

constexpr std::int32_t forced_seniority = 1'000'000;

// What a lying peer can reach at most (E13). At the limit campaigns go on without a new clock, so
// that nobody can be pushed into an overflow.
constexpr std::uint64_t clock_max = std::uint64_t{1} << 63;
constexpr std::size_t ballots_max = 1024;
constexpr std::size_t answered_max = 1024; // Then nobody new is answered until old ones lapse.

// What the rest of the node knows and the election needs, at the time of a step.
struct Facts {
    std::uint64_t commands_seen = 0;       // Commands recorded in the applied log (E2).
    std::optional<model::Session> session; // The session that this node leads, if any.
    std::int64_t head = -1;                // Index of the last event in the log.
    bool has_followers = false;            // Others follow the session that this node leads.

    bool operator==(Facts const&) const = default;
};

struct Campaign {
    TimePoint deadline;
    bool first = false; // The one at process start, with timeout 0: it makes no senior (E3).

    bool operator==(Campaign const&) const = default;
};

struct State {
    model::NodeId self;
    model::Boot boot = 0;
    std::uint64_t clock = 0;
    std::int32_t seniority = 0; // 0 or forced_seniority at start; never stored.
    Ballot own;                 // Of this clock.
    std::optional<Ballot> elected;
    std::map<model::NodeId, Ballot> ballots; // The greatest of each node for this clock.
    std::optional<Campaign> campaign;
    std::optional<TimePoint> gather_until;
    std::set<model::NodeId> peers; // Connected exo nodes.

    std::optional<Standing> standing;  // The newest of the elected node; none of our own.
    TimePoint standing_heard;          // When it came, or the node was elected.
    bool master_left = false;          // Our connection with it has gone, and nothing newer came.
    std::uint64_t seq = 0;             // Of our own last standing.
    TimePoint standing_due;            // When ours is next due on the topic.
    std::optional<Standing> announced; // Our last one on the topic.

    std::map<model::NodeId, TimePoint> answered; // E9
    std::uint64_t refused = 0;                   // Messages beyond the limits of E13.

    bool operator==(State const&) const = default;
};

struct Started {
    std::uint64_t stored_clock = 0;
};

// The first connection with an exo node has come, or the last one has gone.
struct PeerConnected {
    model::NodeId node_id;
};

struct PeerDisconnected {
    model::NodeId node_id;
};

// `from` is who sent it. `informed`: it already knows of our elected ballot (its beat said so), so
// an answer would tell it nothing.
struct BallotReceived {
    model::NodeId from;
    Ballot ballot;
    bool informed = false;
};

struct StandingReceived {
    model::NodeId from;
    Standing standing;
};

// This node can write its log no more (E14).
struct LogFailed {};

struct Tick {};

using Input = std::variant<
    Started,
    PeerConnected,
    PeerDisconnected,
    BallotReceived,
    StandingReceived,
    LogFailed,
    Tick>;

// Must be on disk before anything after it in the list is sent (E1).
struct StoreClock {
    std::uint64_t clock = 0;
    bool operator==(StoreClock const&) const = default;
};

// To all nodes, on the topic.
struct Announce {
    Ballot ballot;
    std::optional<Standing> standing;
    bool operator==(Announce const&) const = default;
};

// To one node directly (E9).
struct Answer {
    model::NodeId to;
    Ballot ballot;
    std::optional<Standing> standing;
    bool operator==(Answer const&) const = default;
};

// `State::elected` has risen.
struct Elected {
    Ballot ballot;
    bool operator==(Elected const&) const = default;
};

using Output = std::variant<StoreClock, Announce, Answer, Elected>;
using Outputs = std::vector<Output>;

// Advances `state` by one input. The same state, input, facts and time always give the same result.
// `Started` comes first and once.
[[nodiscard]] Outputs step(State& state, Input const& input, Facts const& facts, TimePoint now);

// When the next Tick is due; the greatest time point if none is.
[[nodiscard]] TimePoint deadline(State const& state);

// For a beat: a new standing of our own if we are elected, else the newest of the elected node.
[[nodiscard]] std::optional<Standing>
standing_for_beat(State& state, Facts const& facts, TimePoint now);

[[nodiscard]] bool elected_self(State const& state);

// The elected node is another, and its standings have not stopped.
[[nodiscard]] bool follows_live_master(State const& state, TimePoint now);

} // namespace exo::election
