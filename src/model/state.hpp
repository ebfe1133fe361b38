// SPDX-License-Identifier: Apache-2.0
//
// What the cluster agrees upon: a fold over the log's events, equal on all nodes at one position.
#pragma once

#include "model/event.hpp"
#include "model/instance.hpp"
#include "model/node_info.hpp"
#include "model/runner_status.hpp"
#include "model/task.hpp"

#include <deque>
#include <map>
#include <vector>

namespace exo::model {

struct Member {
    Boot boot = 0;
    ReportId report_id;   // All zero: has not joined the present session yet.
    bool settled = false; // Its report of this session has been decided upon (W1).
    bool operator==(Member const&) const = default;
};

struct LineageEntry {
    Session session;
    std::int64_t first_index = 0;
    bool operator==(LineageEntry const&) const = default;
};

struct CommandOutcome {
    CommandId command_id;
    std::optional<InstanceId> instance_id;
    bool operator==(CommandOutcome const&) const = default;
};

struct State {
    std::int64_t last_event_applied_idx = -1;
    std::vector<LineageEntry> lineage; // Oldest first, at most lineage_max.
    std::map<NodeId, Member> members;
    std::map<WishId, Wish> wishes;
    std::map<InstanceId, Instance> instances;
    std::map<RunnerId, RunnerStatus> runners;
    std::map<TaskId, Task> tasks;
    std::deque<TaskId> finished_tasks;        // Oldest first, at most finished_tasks_max.
    std::deque<CommandOutcome> outcomes;      // Oldest first, at most outcomes_max.
    std::deque<InstanceId> deleted_instances; // Tombstones, oldest first, at most tombstones_max.
    std::uint64_t commands_recorded = 0;      // The ballot's commands_seen (E2).

    bool operator==(State const&) const = default;
};

constexpr std::size_t lineage_max = 4096;        // specs/cluster.md section 0
constexpr std::size_t outcomes_max = 4096;       // C2
constexpr std::size_t tombstones_max = 10'000;   // specs/cluster.md section 0
constexpr std::size_t finished_tasks_max = 1000; // What people look at; State must stay small.

} // namespace exo::model
