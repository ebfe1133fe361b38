// SPDX-License-Identifier: Apache-2.0
//
// What nodes of a cluster say to each other (specs/cluster.md 0-4), and how it is written: on
// direct streams as MessagePack, on topics as JSON that people can read. Pure.
//
// Bytes from outside are never trusted: decoding gives a value or an Error, within limits.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "core/election/ballot.hpp"
#include "model/command.hpp"
#include "model/event.hpp"
#include "model/node_info.hpp"
#include "model/report.hpp"
#include "model/state.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace exo::replica {

constexpr std::size_t gossip_bytes_max = 64 * 1024; // Larger messages go by direct stream.
// A snapshot of a home cluster's State fits many times over. The driver reads no longer message.
constexpr std::size_t message_bytes_max = 8 * 1024 * 1024;
constexpr std::size_t range_records_max = 1000;      // S6
constexpr std::size_t range_bytes_max = 1024 * 1024; // S6
constexpr std::size_t join_lineage_max = 256;        // So that a request fits a topic's message.

// The topics, and the protocols of direct streams.
constexpr std::string_view global_events_topic = "global_events";
constexpr std::string_view local_events_topic = "local_events";
constexpr std::string_view commands_topic = "commands";
constexpr std::string_view election_messages_topic = "election_messages";

constexpr std::string_view alive_protocol = "/exo/alive/1.0.0";
constexpr std::string_view command_protocol = "/exo/command/1.0.0";
constexpr std::string_view events_protocol = "/exo/events/1.0.0";
constexpr std::string_view log_protocol = "/exo/log/1.0.0";

// An event of the log. `event` is its JSON as the master wrote it and is never re-encoded: `chain`
// (32 hex digits) is the first half of SHA-256(previous chain, event), S4.
struct Record {
    model::Position position;
    std::string event;
    std::string chain;
    bool operator==(Record const&) const = default;
};

// State at a position, for those whose log cannot be continued.
struct Snapshot {
    model::Position position;
    std::string chain;
    model::State state;
    bool operator==(Snapshot const&) const = default;
};

// Each 500 ms between connected nodes.
struct Beat {
    model::Boot boot = 0;
    std::uint64_t uptime_ms = 0;
    model::ReportId report_id;
    std::optional<model::Session> session; // That it follows or leads; none while it joins.
    std::int64_t applied = -1;
    election::Ballot ballot;
    std::optional<election::Standing> standing;
    bool operator==(Beat const&) const = default;
};

struct ProposedSession {
    model::NodeId master_node_id;
    std::uint64_t election_clock = 0;
    bool operator==(ProposedSession const&) const = default;
};

// A ballot, in the shape that exo has always had; with `standing`, a standing and the ballot that
// it rests upon.
struct ElectionMessage {
    std::uint64_t clock = 0;
    std::int32_t seniority = 0;
    ProposedSession proposed_session; // The candidate and, again, the clock.
    std::uint64_t commands_seen = 0;
    model::Boot boot = 0;
    std::uint64_t uptime_ms = 0; // Of the process that says so, for copied keys (E13).
    std::optional<election::Standing> standing;
    bool operator==(ElectionMessage const&) const = default;
};

[[nodiscard]] ElectionMessage election_message(
    election::Ballot const& ballot,
    std::optional<election::Standing> const& standing,
    std::uint64_t uptime_ms
);

[[nodiscard]] election::Ballot ballot_of(ElectionMessage const& message);

struct CommandRequest {
    model::CommandId command_id;
    model::Command command;
    bool operator==(CommandRequest const&) const = default;
};

// Accepted, or refused in one of the ways that Errc has too, or sent to the wrong node.
enum class Verdict { accepted, invalid_argument, not_found, conflict, unavailable, not_master };

struct CommandAnswer {
    model::CommandId command_id;
    Verdict verdict = Verdict::accepted;
    std::optional<model::InstanceId> instance_id; // Accepted: what it made or concerned.
    std::string reason;                           // Refused: for people.
    std::optional<election::Standing> standing;   // Not master: who is.
    bool operator==(CommandAnswer const&) const = default;
};

// What differs between a worker and the State that it follows (S10).
struct LevelSubmission {
    model::Session session;
    model::ReportId report_id;
    std::vector<model::Event> events;
    bool operator==(LevelSubmission const&) const = default;
};

// S8. Repeated unchanged until the node is settled.
struct JoinRequest {
    model::Session session;
    model::Boot boot = 0;
    std::vector<model::LineageEntry> lineage; // The newest join_lineage_max entries.
    model::Position position;
    model::Report report;
    bool operator==(JoinRequest const&) const = default;
};

// The joiner may fetch the log from here on: from any node in the session.
struct JoinAccepted {
    model::Session session;
    model::ReportId report_id;
    bool operator==(JoinAccepted const&) const = default;
};

// S9: the master knows no such combination of boot and report; join anew with a new report.
struct Rejoin {
    model::Session session;
    model::ReportId report_id;
    bool operator==(Rejoin const&) const = default;
};

// S6: the records of `session`'s log after a position.
struct RangeRequest {
    model::Session session;
    model::Position after;
    bool snapshot = false; // The asker's log is damaged: State itself is wanted.
    bool operator==(RangeRequest const&) const = default;
};

// Records, or a snapshot where they cannot continue the asker's log, or neither: nothing newer, or
// not in that session.
struct RangeAnswer {
    model::Session session;
    std::vector<Record> records;
    std::optional<Snapshot> snapshot;
    bool operator==(RangeAnswer const&) const = default;
};

// S1: what a new master asks before it leads.
struct TailRequest {
    model::Position after;
    bool operator==(TailRequest const&) const = default;
};

struct TailAnswer {
    model::Position after; // As asked.
    std::vector<Record> records;
    std::optional<Snapshot> snapshot;
    bool operator==(TailAnswer const&) const = default;
};

using Message = std::variant<
    Beat,
    ElectionMessage,
    CommandRequest,
    CommandAnswer,
    LevelSubmission,
    model::NodeInfo,
    Record,
    JoinRequest,
    JoinAccepted,
    Rejoin,
    RangeRequest,
    RangeAnswer,
    TailRequest,
    TailAnswer>;

// The direct protocol of a message.
[[nodiscard]] std::string_view protocol_of(Message const& message);

[[nodiscard]] std::string_view name_of(Message const& message);

[[nodiscard]] Bytes encode(Message const& message);

// Errors: protocol (malformed), limit.
[[nodiscard]] Result<Message> decode(BytesView bytes);

// A message on a topic; with `to`, for that node only (S11).
struct Gossip {
    std::optional<model::NodeId> to;
    Message message;
    bool operator==(Gossip const&) const = default;
};

[[nodiscard]] std::string encode_gossip(Gossip const& gossip);
[[nodiscard]] Result<Gossip> decode_gossip(std::string_view text);

} // namespace exo::replica
