// SPDX-License-Identifier: Apache-2.0
#include "core/plan/plan.hpp"

#include <algorithm>

namespace exo::plan {
namespace {

using namespace model;

// The instance in which the runner is this node's rank, if State has it.
Instance const* instance_of(State const& state, NodeId const& self, LocalRunner const& local) {
    auto const found = state.instances.find(local.instance_id);
    if (found == state.instances.end()) {
        return nullptr;
    }
    RunnerId const* const runner = runner_of(found->second, self);
    return runner != nullptr && *runner == local.runner_id ? &found->second : nullptr;
}

// "rank 1 on <node> failed: <why>" of another rank than `self`'s; empty if none has failed.
std::string failed_sibling(State const& state, Instance const& instance, NodeId const& self) {
    std::vector<NodeId> const nodes = nodes_by_rank(instance);
    for (std::size_t rank = 0; rank < nodes.size(); ++rank) {
        auto const status = state.runners.find(*runner_of(instance, nodes[rank]));
        if (nodes[rank] == self || status == state.runners.end()) {
            continue;
        }
        if (auto const* const failed = std::get_if<RunnerFailed>(&status->second)) {
            return "rank " + std::to_string(rank) + " on " + nodes[rank].value() +
                   " failed: " + failed->error_message;
        }
    }
    return {};
}

StopRunner stop(LocalRunner const& local, StopReason reason, std::string text) {
    return {
        .runner_id = local.runner_id,
        .generation = local.generation,
        .reason = reason,
        .text = std::move(text)
    };
}

// W2, because of State.
std::optional<StopRunner>
stop_by_state(State const& state, NodeId const& self, LocalRunner const& local) {
    Instance const* const instance = instance_of(state, self, local);
    if (instance == nullptr) {
        return stop(local, StopReason::instance_gone, "its instance was deleted");
    }
    Generation const wanted = generation(*instance);
    if (wanted > local.generation) {
        return stop(
            local,
            StopReason::newer_generation,
            "its group is started anew as generation " + std::to_string(wanted)
        );
    }
    std::string const failure =
        wanted == local.generation ? failed_sibling(state, *instance, self) : "";
    if (!failure.empty()) {
        return stop(local, StopReason::group_failed, failure);
    }
    return std::nullopt;
}

std::optional<StopRunner>
next_stop(State const& state, NodeId const& self, bool settled, LocalRunners const& runners) {
    for (auto const& local : runners) {
        if (local.process != Process::running) {
            continue;
        }
        // Not because of State, so always: a failed rank only holds memory.
        if (auto const* const failed = std::get_if<RunnerFailed>(&local.status)) {
            return stop(local, StopReason::group_failed, failed->error_message);
        }
        if (!settled) {
            continue;
        }
        if (auto action = stop_by_state(state, self, local)) {
            return action;
        }
    }
    return std::nullopt;
}

bool was_started(LocalRunners const& runners, RunnerId const& runner, Generation generation) {
    return std::ranges::any_of(runners, [&](LocalRunner const& local) {
        return local.runner_id == runner && local.generation >= generation;
    });
}

std::optional<CreateRunner>
next_create(State const& state, NodeId const& self, LocalRunners const& runners) {
    // What ends still holds its memory (W3).
    if (std::ranges::count(runners, Process::ending, &LocalRunner::process) > 0) {
        return std::nullopt;
    }
    for (auto const& [id, instance] : state.instances) {
        RunnerId const* const runner = runner_of(instance, self);
        if (runner == nullptr || !is_well_formed(instance) ||
            was_started(runners, *runner, generation(instance)) ||
            !failed_sibling(state, instance, self).empty()) {
            continue;
        }
        return CreateRunner{
            .instance = instance,
            .runner_id = *runner,
            .generation = generation(instance),
            .device_rank = device_rank(shard_assignments(instance).runner_to_shard.at(*runner))
        };
    }
    return std::nullopt;
}

} // namespace

std::optional<Action>
next_action(State const& state, NodeId const& self, bool settled, LocalRunners const& runners) {
    if (auto action = next_stop(state, self, settled, runners)) {
        return std::move(*action);
    }
    if (!settled) {
        return std::nullopt; // W1
    }
    if (auto action = next_create(state, self, runners)) {
        return std::move(*action);
    }
    return std::nullopt;
}

std::vector<LocalRunner>
forgettable(State const& state, NodeId const& self, LocalRunners const& runners) {
    std::vector<LocalRunner> done;
    std::ranges::copy_if(runners, std::back_inserter(done), [&](LocalRunner const& local) {
        Instance const* const instance = instance_of(state, self, local);
        bool const is_wanted = instance != nullptr && generation(*instance) <= local.generation;
        return local.process == Process::gone && !is_wanted;
    });
    return done;
}

} // namespace exo::plan
