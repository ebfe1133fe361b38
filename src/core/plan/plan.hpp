// SPDX-License-Identifier: Apache-2.0
//
// What this node's worker does next (specs/cluster.md W1-W3). Pure; the worker calls it after each
// change of State and of its runners, does the action, and calls again until there is none.
#pragma once

#include "model/event.hpp"
#include "model/instance.hpp"
#include "model/runner_status.hpp"
#include "model/state.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace exo::plan {

// ending: told to stop, or dead and not reaped. It counts in memory until it is gone (W3).
// gone: reaped; the entry stays while State may still want its last status (forgettable).
enum class Process { running, ending, gone };

struct LocalRunner {
    model::RunnerId runner_id;
    model::InstanceId instance_id;
    model::Generation generation = 0;
    model::RunnerStatus status;
    Process process = Process::running;

    bool operator==(LocalRunner const&) const = default;
};

// At most one entry for each (runner id, generation).
using LocalRunners = std::vector<LocalRunner>;

struct CreateRunner {
    model::Instance instance;
    model::RunnerId runner_id;
    model::Generation generation = 0;
    std::uint32_t device_rank = 0;

    bool operator==(CreateRunner const&) const = default;
};

// The reasons of W2 that follow from State and runners. The others (watchdog, the node ends) are
// the worker's own.
enum class StopReason { instance_gone, newer_generation, group_failed };

struct StopRunner {
    model::RunnerId runner_id;
    model::Generation generation = 0;
    StopReason reason = StopReason::instance_gone;
    std::string text; // For the log and for the streams that end: the reason in words.

    bool operator==(StopRunner const&) const = default;
};

using Action = std::variant<CreateRunner, StopRunner>;

// `settled`: State says so of this node in the session that it follows, with its present report.
[[nodiscard]] std::optional<Action> next_action(
    model::State const& state, model::NodeId const& self, bool settled, LocalRunners const& runners
);

// Entries that nobody needs any more: gone, and State has no use for their status.
[[nodiscard]] std::vector<LocalRunner>
forgettable(model::State const& state, model::NodeId const& self, LocalRunners const& runners);

} // namespace exo::plan
