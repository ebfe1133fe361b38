// SPDX-License-Identifier: Apache-2.0
//
// One node's part in the cluster, as one pure machine: election, session, log, joining, the
// master's duty and commands (specs/cluster.md 1-4). The node's driver and the simulator run
// exactly this.
//
//     for (Output const& output : replica.step(input, now)) { carry it out, in order }
//     come back with Tick at replica.deadline()
//
// It has no thread, clock, socket or file. `StoreClock` must be on disk before anything after it is
// sent. Feed `Started` first. Messages that arrive malformed never get here (decode); those that do
// not fit are dropped and counted.
#pragma once

#include "base/time.hpp"
#include "core/replica/message.hpp"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace exo::replica {

struct Config {
    model::NodeId self;
    model::Boot boot = 0;
    std::uint64_t stored_clock = 0; // 0 when none was stored.
    bool force_master = false;
    std::uint64_t seed = 0; // For nonces and choices: random in life, fixed in simulation.
};

// --- Inputs ---

struct Started {};

// The first connection with an exo node has come, or the last one has gone.
struct PeerConnected {
    model::NodeId node_id;
};

struct PeerDisconnected {
    model::NodeId node_id;
};

// `from`: the peer of the stream, or the author of the gossip. `to`: of decode_gossip.
struct MessageReceived {
    model::NodeId from;
    Message message;
    bool by_gossip = false;
    std::optional<model::NodeId> to;
};

// From the local API. Answered once by CommandAnswered, within 10 s.
struct CommandRequested {
    model::CommandId command_id;
    model::Command command;
};

// What the local worker runs now; all of it each time.
struct LevelsChanged {
    std::vector<model::ReportedRunner> runners;
    // Tasks whose rank 0 runs here: the open ones, and finished ones until State has them so.
    std::vector<model::Task> tasks;
};

// The own node's info; boot and sequence are set here.
struct ObservationChanged {
    model::NodeInfo info;
};

struct Tick {};

using Input = std::variant<
    Started,
    PeerConnected,
    PeerDisconnected,
    MessageReceived,
    CommandRequested,
    LevelsChanged,
    ObservationChanged,
    Tick>;

// --- Outputs ---

struct StoreClock {
    std::uint64_t clock = 0;
};

// By direct stream, protocol_of(message), in order with earlier ones of that protocol.
struct Send {
    model::NodeId to;
    Message message;
};

struct Publish {
    std::string_view topic;
    Gossip gossip;
};

// Error codes: conflict or not_found (refused, with the reason), unavailable (no master answered).
struct CommandAnswered {
    model::CommandId command_id;
    Result<model::CommandOutcome> outcome;
};

// For a store: the log now ends with this record.
struct EventAppended {
    Record record;
};

// For a store: the log is replaced, and begins after this.
struct SnapshotInstalled {
    model::Position position;
};

// state(), observations() or settled() differs from before the step; at most once a step.
struct StateChanged {};

struct MasterChanged {
    std::optional<model::NodeId> master;
};

// Six beats missed: close its connections. PeerDisconnected follows from the driver.
struct PeerLost {
    model::NodeId node_id;
};

// Another process runs with our key (E13). `make_new_key`: we are the one to give way.
struct CopiedKey {
    model::Boot other_boot = 0;
    bool make_new_key = false;
};

using Output = std::variant<
    StoreClock,
    Send,
    Publish,
    CommandAnswered,
    EventAppended,
    SnapshotInstalled,
    StateChanged,
    MasterChanged,
    PeerLost,
    CopiedKey>;
using Outputs = std::vector<Output>;

// Seen so far; for people and tests.
struct Counters {
    std::uint64_t messages_dropped = 0; // Of another session, not from its master, out of place.
    std::uint64_t events_ahead_dropped = 0;
    std::uint64_t snapshots_taken = 0;
    std::uint64_t forks_dropped = 0; // Own logs given up for the master's.
    std::uint64_t campaigns = 0;
};

// The election as people see it.
struct ElectionView {
    std::uint64_t clock = 0;
    std::int32_t seniority = 0;
    std::optional<election::Ballot> elected;
    bool campaigning = false;
    std::optional<election::Standing> standing;
};

struct Parts; // parts.hpp

class Replica {
public:
    Replica(Config config, TimePoint now);
    ~Replica();
    Replica(Replica&&) noexcept;
    Replica& operator=(Replica&&) noexcept;

    [[nodiscard]] Outputs step(Input const& input, TimePoint now);

    // When the next Tick is due.
    [[nodiscard]] TimePoint deadline() const;

    [[nodiscard]] model::NodeId const& self() const;
    [[nodiscard]] model::State const& state() const;
    [[nodiscard]] model::Observations const& observations() const;

    // The node whose session this one leads or follows, while that is alive.
    [[nodiscard]] std::optional<model::NodeId> master() const;
    [[nodiscard]] bool leading() const;

    // The worker may act on state() (W1).
    [[nodiscard]] bool settled() const;

    // Led or followed: the last session of state().
    [[nodiscard]] std::optional<model::Session> session() const;
    [[nodiscard]] model::Position position() const;
    [[nodiscard]] std::string const& chain() const;

    // When each node, connected or not, was last heard, by any message that it wrote.
    [[nodiscard]] std::map<model::NodeId, TimePoint> const& heard() const;
    [[nodiscard]] std::set<model::NodeId> const& peers() const;
    [[nodiscard]] ElectionView election() const;
    [[nodiscard]] Counters const& counters() const;

private:
    std::unique_ptr<Parts> parts_;
};

} // namespace exo::replica
