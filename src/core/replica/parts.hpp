// SPDX-License-Identifier: Apache-2.0
//
// Inside of Replica: what it holds, by concern, and the functions of each concern's file. Only
// replica/*.cpp includes this.
//
// A step is: what the input says (on_...), then what time and the new situation ask for (the
// functions without input), until nothing is left to do; replica.cpp has the order.
#pragma once

#include "base/random.hpp"
#include "core/cluster/duties.hpp"
#include "core/cluster/join.hpp"
#include "core/cluster/levels.hpp"
#include "core/cluster/lineage.hpp"
#include "core/election/election.hpp"
#include "core/replica/log.hpp"
#include "core/replica/replica.hpp"

namespace exo::replica {

constexpr Duration beat_interval = 500ms;
constexpr Duration peer_lost_after = 3s;  // Six beats.
constexpr Duration boot_hold = 1s;        // S2
constexpr Duration recovery_max = 500ms;  // S1
constexpr Duration join_interval = 1s;    // S8
constexpr Duration rejoin_interval = 1s;  // S9, to one node.
constexpr Duration gap_delay_min = 100ms; // S6, doubling to
constexpr Duration gap_delay_max = 1s;
constexpr Duration command_interval = 1s;    // C1
constexpr Duration command_time = 10s;       // C1
constexpr Duration submission_interval = 1s; // S10
constexpr Duration info_interval = 5s;       // Gossip may have lost our last info.
constexpr Duration info_kept = 20s;          // Of a silent node that is no member.
constexpr Duration forget_interval = 5s;     // So it is forgotten within 30 s.
constexpr Duration former_self_time = 10s;   // Gossip of our own earlier process ends by then.

constexpr std::size_t ahead_max = 4096;     // Events of look-ahead.
constexpr std::size_t commands_max = 1024;  // Of the local API, unanswered.
constexpr std::size_t nodes_max = 1024;     // Heard or observed; clusters have up to 100.
constexpr std::size_t small_cluster = 8;    // Asks its master first for missing events (S6).
constexpr std::size_t duty_rounds_max = 16; // In one step; the next is 500 ms away.

// A connected exo node.
struct Peer {
    TimePoint heard; // By direct stream.
    bool lost = false;
    std::optional<model::Session> session; // As its last beat said.
    std::int64_t applied = -1;
};

// Elected, and asking for the newest log before leading (S1).
struct Recovery {
    TimePoint until;
    std::set<model::NodeId> pending;
    std::optional<TailAnswer> best;
};

struct Leadership {
    model::Session session;
    TimePoint started;
    TimePoint duties_at;
    cluster::Duties duties;
    cluster::OpenReports reports;
    std::map<model::NodeId, TimePoint> rejoin_sent;
};

// The session of the elected master, and what is missing of its log.
struct Following {
    std::optional<model::Session> target;
    std::int64_t head = -1; // As its standings say.
    std::map<std::int64_t, Record> ahead;
    std::optional<TimePoint> gap_at; // When the missing is asked for next.
    Duration gap_delay = gap_delay_min;
    bool wants_snapshot = false; // Our log and the session's differ.
};

struct Joining {
    std::uint64_t reports_count = 0;
    model::ReportId report_id;          // Of the session led or followed.
    std::optional<JoinRequest> request; // While not settled in `target`.
    bool accepted = false;
    TimePoint repeat_at;
};

struct OpenCommand {
    model::Command command;
    TimePoint until;
    TimePoint repeat_at;
};

struct Worker {
    std::vector<model::ReportedRunner> runners;
    cluster::Levels levels;
    bool dirty = true; // Levels or State have changed since they were compared.
    std::vector<model::Event> submitted;
    TimePoint submit_at; // Again, if still missing.
};

struct Parts {
    Parts(Config config_in, TimePoint start)
        : config(std::move(config_in))
        , started(start)
        , now(start)
        , random(config.seed)
        , beat_at(start) {
        election.self = config.self;
        election.boot = config.boot;
        election.seniority = config.force_master ? election::forced_seniority : 0;
    }

    Config config;
    TimePoint started;
    TimePoint now;
    Outputs outputs; // Of this step.
    bool state_changed = false;
    Random random;
    Counters counters;

    election::State election;
    std::uint64_t campaign_clock = 0; // Counted last.
    Log log;
    std::map<model::NodeId, Peer> peers;
    std::map<model::NodeId, TimePoint> heard; // With ourselves, as now.
    TimePoint beat_at;

    std::optional<Recovery> recovery;
    std::optional<Leadership> leadership;
    bool had_session = false; // Has led or followed in this process (S2).
    Following following;
    Joining joining;
    std::map<model::CommandId, OpenCommand> commands;
    Worker worker;

    model::Observations observations;
    TimePoint info_at;   // When ours is published again.
    TimePoint forget_at; // When those of others are looked through for what nobody needs.
    std::optional<model::NodeId> master;
    std::set<model::Boot> copies; // Reported (E13).
};

// --- replica.cpp: what all concerns use ---

void send(Parts& parts, model::NodeId const& to, Message message);
// To a node that may be connected or not (S11).
void send_or_publish(Parts& parts, model::NodeId const& to, Message message);
void publish(Parts& parts, std::string_view topic, Gossip gossip);
void drop(Parts& parts);
// Applies the log's next record, ours or another's. Errors: those of Log::append.
[[nodiscard]] Result<void> apply_record(Parts& parts, Record record);
[[nodiscard]] Result<void> install_snapshot(Parts& parts, Snapshot snapshot);
[[nodiscard]] std::uint64_t uptime_ms(Parts const& parts);

// --- voting.cpp: the election ---

void vote(Parts& parts, election::Input const& input);
void on_election_message(Parts& parts, model::NodeId const& from, ElectionMessage const& message);
void on_standing(Parts& parts, model::NodeId const& from, election::Standing const& standing);
[[nodiscard]] election::Facts facts(Parts const& parts);
// The elected node, if it is another.
[[nodiscard]] std::optional<model::NodeId> elected_other(Parts const& parts);
// Leads, or follows one that lives.
[[nodiscard]] std::optional<model::NodeId> live_master(Parts const& parts);
void note_own_id(Parts& parts, Message const& message, bool by_gossip);

// --- beats.cpp: signs of life ---

void send_beats(Parts& parts);
void send_beat(Parts& parts, model::NodeId const& to);
void on_beat(Parts& parts, model::NodeId const& from, Beat const& beat, bool by_gossip);
void lose_silent_peers(Parts& parts);

// --- leading.cpp: from elected to master, and what a master does ---

void lead_if_elected(Parts& parts);
void append(Parts& parts, std::vector<model::Event> const& events);
void do_duties(Parts& parts);
[[nodiscard]] std::optional<TimePoint> leading_deadline(Parts const& parts);
void on_tail_request(Parts& parts, model::NodeId const& from, TailRequest const& request);
void on_tail_answer(Parts& parts, model::NodeId const& from, TailAnswer const& answer);
void on_join_request(Parts& parts, model::NodeId const& from, JoinRequest const& request);
void ask_to_rejoin(Parts& parts, model::NodeId const& from, Beat const& beat);

// --- following.cpp: the log of another's session ---

void follow(Parts& parts);
void repair_gap(Parts& parts);
[[nodiscard]] bool in_target_session(Parts const& parts);
void on_record(Parts& parts, model::NodeId const& from, Record const& record);
void on_range_request(Parts& parts, model::NodeId const& from, RangeRequest const& request);
void on_range_answer(Parts& parts, RangeAnswer const& answer);
void take_records(Parts& parts, std::vector<Record> const& records);

// --- joining.cpp: our report to a new master ---

[[nodiscard]] model::Report new_report(Parts& parts);
void begin_join(Parts& parts, model::Session const& session);
void repeat_join(Parts& parts);
void on_join_accepted(Parts& parts, JoinAccepted const& accepted);
void on_rejoin(Parts& parts, model::NodeId const& from, Rejoin const& rejoin);
[[nodiscard]] bool settled(Parts const& parts);

// --- commands.cpp ---

void on_command_requested(Parts& parts, CommandRequested const& in);
void on_command_request(Parts& parts, model::NodeId const& from, CommandRequest const& request);
void on_command_answer(Parts& parts, model::NodeId const& from, CommandAnswer const& message);
void hurry_commands(Parts& parts);
void repeat_commands(Parts& parts);

// --- levels.cpp: what the worker runs ---

void on_levels(Parts& parts, LevelsChanged const& in);
void submit_levels(Parts& parts);
void on_submission(Parts& parts, model::NodeId const& from, LevelSubmission const& submission);

// --- observations.cpp ---

void on_own_info(Parts& parts, model::NodeInfo info);
void on_info(Parts& parts, model::NodeId const& from, model::NodeInfo const& info);
void send_observations(Parts& parts, model::NodeId const& to);
void refresh_observations(Parts& parts);

} // namespace exo::replica
