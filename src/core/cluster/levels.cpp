// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/levels.hpp"

#include "base/overloaded.hpp"
#include "core/cluster/lineage.hpp"

#include <algorithm>

namespace exo::cluster {
namespace {

using namespace model;

// The instance whose rank on `node` is this runner.
Instance const* instance_of(State const& state, NodeId const& node, RunnerId const& runner) {
    for (auto const& [id, instance] : state.instances) {
        RunnerId const* const own = runner_of(instance, node);
        if (own != nullptr && *own == runner) {
            return &instance;
        }
    }
    return nullptr;
}

bool is_rank_0(State const& state, InstanceId const& instance, NodeId const& node) {
    auto const found = state.instances.find(instance);
    if (found == state.instances.end()) {
        return false;
    }
    auto const nodes = nodes_by_rank(found->second);
    return !nodes.empty() && nodes.front() == node;
}

// Progress of loading goes into the log by tenths, not by layers.
std::uint64_t tenth(RunnerLoading const& loading) {
    std::uint64_t const total = std::max(loading.total_layers, 1u);
    return std::uint64_t{loading.layers_loaded} * 10 / total;
}

bool says_the_same(RunnerStatus const& a, RunnerStatus const& b) {
    auto const* const left = std::get_if<RunnerLoading>(&a);
    auto const* const right = std::get_if<RunnerLoading>(&b);
    return left != nullptr && right != nullptr ? tenth(*left) == tenth(*right) : a == b;
}

// Does `event` say something that State lacks, and may `from` say it?
bool is_news(State const& state, NodeId const& from, RunnerStatusUpdated const& event) {
    Instance const* const instance = instance_of(state, from, event.runner_id);
    if (instance == nullptr || generation(*instance) != event.generation) {
        return false;
    }
    auto const status = state.runners.find(event.runner_id);
    return status == state.runners.end() || !says_the_same(status->second, event.runner_status);
}

bool is_news(State const& state, NodeId const& from, TaskCreated const& event) {
    return !state.tasks.contains(task_id(event.task)) &&
           is_rank_0(state, task_instance(event.task), from);
}

bool is_news(State const& state, NodeId const& from, TaskStatusUpdated const& event) {
    auto const task = state.tasks.find(event.task_id);
    return task != state.tasks.end() && !is_terminal(task_status(task->second)) &&
           task_status(task->second) != event.task_status &&
           is_rank_0(state, task_instance(task->second), from);
}

std::size_t open_tasks(State const& state) {
    return state.tasks.size() - std::min(state.tasks.size(), state.finished_tasks.size());
}

std::vector<Event> runner_levels(State const& state, NodeId const& self, Levels const& levels) {
    std::vector<Event> events;
    for (auto const& [runner, level] : levels.runners) {
        RunnerStatusUpdated const event{
            .runner_id = runner, .generation = level.generation, .runner_status = level.status
        };
        if (is_news(state, self, event)) {
            events.emplace_back(event);
        }
    }
    return events;
}

std::vector<Event> task_levels(State const& state, NodeId const& self, Levels const& levels) {
    std::vector<Event> events;
    for (auto const& [id, task] : levels.tasks) {
        TaskCreated const created{.task = task};
        TaskStatusUpdated const updated{
            .task_id = id, .task_status = task_status(task), .error_message = task_error(task)
        };
        if (is_news(state, self, created)) {
            events.emplace_back(created);
        } else if (is_news(state, self, updated)) {
            events.emplace_back(updated);
        }
    }
    return events;
}

std::vector<Event> lost_tasks(State const& state, NodeId const& self, Levels const& levels) {
    std::vector<Event> events;
    for (auto const& [id, task] : state.tasks) {
        TaskStatusUpdated const lost{
            .task_id = id,
            .task_status = TaskStatus::failed,
            .error_message = "its node was started anew"
        };
        if (!levels.tasks.contains(id) && is_news(state, self, lost)) {
            events.emplace_back(lost);
        }
    }
    return events;
}

} // namespace

std::vector<Event> missing_levels(State const& state, NodeId const& self, Levels const& levels) {
    std::vector<Event> events = runner_levels(state, self, levels);
    for (auto const& part : {task_levels(state, self, levels), lost_tasks(state, self, levels)}) {
        events.insert(events.end(), part.begin(), part.end());
    }
    if (events.size() > submission_events_max) {
        events.resize(submission_events_max);
    }
    return events;
}

Result<std::vector<Event>> accept_submission(
    State const& state,
    NodeId const& from,
    Session const& session,
    ReportId const& report_id,
    std::vector<Event> const& events
) {
    if (current_session(state) != session) {
        return Error(Errc::conflict, "the submission is of another session");
    }
    auto const member = state.members.find(from);
    if (member == state.members.end() || member->second.report_id != report_id) {
        return Error(Errc::conflict, "the node has not joined with this report");
    }
    if (events.size() > submission_events_max) {
        return Error(
            Errc::limit, "more than " + std::to_string(submission_events_max) + " events at once"
        );
    }
    std::size_t const room = open_tasks_max - std::min(open_tasks(state), open_tasks_max);
    std::size_t created = 0;
    std::vector<Event> accepted;
    for (auto const& event : events) {
        bool const good = std::visit(
            Overloaded{
                [&](RunnerStatusUpdated const& kind) { return is_news(state, from, kind); },
                [&](TaskStatusUpdated const& kind) { return is_news(state, from, kind); },
                [&](TaskCreated const& kind) {
                    return is_news(state, from, kind) && created++ < room;
                },
                [](auto const&) { return false; }, // Not a worker's to say.
            },
            event
        );
        if (good) {
            accepted.push_back(event);
        }
    }
    return accepted;
}

} // namespace exo::cluster
