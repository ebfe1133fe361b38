// SPDX-License-Identifier: Apache-2.0
//
// What has happened, in the one order that a session's master gives. State is a fold over events.
#pragma once

#include "model/instance.hpp"
#include "model/runner_status.hpp"
#include "model/task.hpp"

#include <optional>
#include <variant>

namespace exo::model {

// Two sessions are the same only if all three are equal.
struct Session {
    NodeId master_node_id;
    std::uint64_t election_clock = 0;
    std::uint64_t nonce = 0;

    auto operator<=>(Session const&) const = default;
};

// Names the content of an event uniquely, in all forks and for ever.
struct Position {
    Session session;
    std::int64_t index = -1;

    auto operator<=>(Position const&) const = default;
};

// A worker's full account of itself, made on joining a session.
struct ReportId {
    Boot boot = 0;
    std::uint64_t n = 0;

    auto operator<=>(ReportId const&) const = default;
};

struct SessionStarted {
    Session session;
    std::int64_t base = -1; // Index of the last event before it.
    bool operator==(SessionStarted const&) const = default;
};

// Drops what State said of that node's runners.
struct NodeJoined {
    NodeId node_id;
    Boot boot = 0;
    ReportId report_id;
    bool operator==(NodeJoined const&) const = default;
};

// Its report has been decided upon: the worker may act on State (W1).
struct NodeSettled {
    NodeId node_id;
    ReportId report_id;
    bool operator==(NodeSettled const&) const = default;
};

struct NodeTimedOut {
    NodeId node_id;
    bool operator==(NodeTimedOut const&) const = default;
};

struct WishCreated {
    Wish wish;
    bool operator==(WishCreated const&) const = default;
};

struct WishDeleted {
    WishId wish_id;
    bool operator==(WishDeleted const&) const = default;
};

// Why a wish has no instance now, with numbers. Empty: it has one again.
struct WishRefused {
    WishId wish_id;
    std::string reason;
    bool operator==(WishRefused const&) const = default;
};

struct InstanceCreated {
    Instance instance;
    bool adopted = false;
    bool operator==(InstanceCreated const&) const = default;
};

enum class DeletionReason { user, node_lost, failed, duplicate };

struct InstanceDeleted {
    InstanceId instance_id;
    DeletionReason reason = DeletionReason::user;
    std::string message; // For people: which node was lost, what failed.
    bool operator==(InstanceDeleted const&) const = default;
};

struct InstanceRestarted {
    InstanceId instance_id;
    Generation generation = 0;
    bool operator==(InstanceRestarted const&) const = default;
};

// Of another generation than State's: ignored, the group has been started anew since.
struct RunnerStatusUpdated {
    RunnerId runner_id;
    Generation generation = 0;
    RunnerStatus runner_status;
    bool operator==(RunnerStatusUpdated const&) const = default;
};

struct TaskCreated {
    Task task;
    bool operator==(TaskCreated const&) const = default;
};

struct TaskStatusUpdated {
    TaskId task_id;
    TaskStatus task_status = TaskStatus::pending;
    std::string error_message;
    bool operator==(TaskStatusUpdated const&) const = default;
};

struct TaskDeleted {
    TaskId task_id;
    bool operator==(TaskDeleted const&) const = default;
};

// A known id gets its recorded outcome and is not executed again (C2).
struct CommandRecorded {
    CommandId command_id;
    std::optional<InstanceId> instance_id;
    bool operator==(CommandRecorded const&) const = default;
};

using Event = std::variant<
    SessionStarted,
    NodeJoined,
    NodeSettled,
    NodeTimedOut,
    WishCreated,
    WishDeleted,
    WishRefused,
    InstanceCreated,
    InstanceDeleted,
    InstanceRestarted,
    RunnerStatusUpdated,
    TaskCreated,
    TaskStatusUpdated,
    TaskDeleted,
    CommandRecorded>;

} // namespace exo::model
