// SPDX-License-Identifier: Apache-2.0
//
// What a worker tells the master between joins: levels ("the runner is Ready"), not steps. It
// compares what is with what State says and submits the difference until it is gone (S10). Nothing
// is lost in a change of master, and applying one twice does nothing.
#pragma once

#include "base/result.hpp"
#include "model/event.hpp"
#include "model/state.hpp"

#include <map>
#include <vector>

namespace exo::cluster {

struct RunnerLevel {
    model::Generation generation = 0;
    model::RunnerStatus status;
    bool operator==(RunnerLevel const&) const = default;
};

// What really is on this node.
struct Levels {
    std::map<model::RunnerId, RunnerLevel> runners;
    // Tasks whose rank 0 runs here: the open ones, and finished ones until State has them so.
    std::map<model::TaskId, model::Task> tasks;
};

// A submission's events at most; the rest follows when these are applied.
constexpr std::size_t submission_events_max = 256;
// Requests that are not finished, in the whole cluster.
constexpr std::size_t open_tasks_max = 10'000;

// The events that State lacks. An open task of State whose rank 0 should be here and that is not in
// `levels` has been lost with an earlier process: Failed.
[[nodiscard]] std::vector<model::Event>
missing_levels(model::State const& state, model::NodeId const& self, Levels const& levels);

// The master's check: the events of a submission that change something and that `from` may say
// (statuses of its own runners, tasks of instances whose rank 0 it is). Errors: conflict, when
// session or report are not the present ones (the worker must follow or join first).
[[nodiscard]] Result<std::vector<model::Event>> accept_submission(
    model::State const& state,
    model::NodeId const& from,
    model::Session const& session,
    model::ReportId const& report_id,
    std::vector<model::Event> const& events
);

} // namespace exo::cluster
