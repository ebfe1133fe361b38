// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/apply.hpp"

#include "base/assert.hpp"
#include "base/overloaded.hpp"

#include <algorithm>

namespace exo::cluster {
namespace {

using namespace model;

template <class T>
void push_bounded(std::deque<T>& queue, T value, std::size_t size_max) {
    queue.push_back(std::move(value));
    while (queue.size() > size_max) {
        queue.pop_front();
    }
}

// The runner's instance and its generation, of those that State knows.
Instance const* instance_of(State const& state, RunnerId const& runner) {
    auto const found = std::ranges::find_if(state.instances, [&](auto const& entry) {
        return shard_assignments(entry.second).runner_to_shard.contains(runner);
    });
    return found == state.instances.end() ? nullptr : &found->second;
}

void forget_runners_of_node(State& state, NodeId const& node) {
    for (auto const& [id, instance] : state.instances) {
        if (RunnerId const* const runner = runner_of(instance, node)) {
            state.runners.erase(*runner);
        }
    }
}

void forget_runners_of_instance(State& state, Instance const& instance) {
    for (auto const& [runner, shard] : shard_assignments(instance).runner_to_shard) {
        state.runners.erase(runner);
    }
}

void finish_task(State& state, Task& task, TaskStatus status, std::string error_message) {
    set_task_status(task, status, std::move(error_message));
    state.finished_tasks.push_back(task_id(task));
    while (state.finished_tasks.size() > finished_tasks_max) {
        state.tasks.erase(state.finished_tasks.front()); // Maybe `task`: not touched after this.
        state.finished_tasks.pop_front();
    }
}

void fail_open_tasks(State& state, InstanceId const& instance, std::string const& why) {
    std::vector<TaskId> open; // In order of id: finishing erases others.
    for (auto const& [id, task] : state.tasks) {
        if (task_instance(task) == instance && !is_terminal(task_status(task))) {
            open.push_back(id);
        }
    }
    for (auto const& id : open) {
        finish_task(state, state.tasks.at(id), TaskStatus::failed, why);
    }
}

// A change of nodes may be what a failed wish was waiting for (M3).
void reconsider_failed_wishes(State& state) {
    for (auto& [id, wish] : state.wishes) {
        wish.failed = false;
    }
}

void on(State& state, SessionStarted const& event) {
    state.lineage.push_back({.session = event.session, .first_index = state.last_event_applied_idx}
    );
    if (state.lineage.size() > lineage_max) {
        state.lineage.erase(state.lineage.begin());
    }
    // Every node joins every session with a new report.
    for (auto& [node, member] : state.members) {
        member.report_id = {};
        member.settled = false;
    }
}

void on(State& state, NodeJoined const& event) {
    auto const former = state.members.find(event.node_id);
    bool const is_new = former == state.members.end() || former->second.boot != event.boot;
    state.members[event.node_id] = {
        .boot = event.boot, .report_id = event.report_id, .settled = false
    };
    forget_runners_of_node(state, event.node_id);
    if (is_new) {
        reconsider_failed_wishes(state);
    }
}

void on(State& state, NodeSettled const& event) {
    auto const member = state.members.find(event.node_id);
    if (member != state.members.end() && member->second.report_id == event.report_id) {
        member->second.settled = true;
    }
}

void on(State& state, NodeTimedOut const& event) {
    if (state.members.erase(event.node_id) > 0) {
        forget_runners_of_node(state, event.node_id);
        reconsider_failed_wishes(state);
    }
}

void on(State& state, WishCreated const& event) {
    state.wishes.try_emplace(event.wish.wish_id, event.wish);
}

void on(State& state, WishDeleted const& event) {
    state.wishes.erase(event.wish_id);
}

void on(State& state, WishRefused const& event) {
    auto const wish = state.wishes.find(event.wish_id);
    if (wish != state.wishes.end()) {
        wish->second.refusal = event.reason;
    }
}

void on(State& state, InstanceCreated const& event) {
    InstanceId const& id = instance_id(event.instance);
    if (std::ranges::count(state.deleted_instances, id) > 0) {
        return; // An id never comes again: its deletion is for ever (S8.3).
    }
    if (!state.instances.try_emplace(id, event.instance).second) {
        return;
    }
    auto const wish = state.wishes.find(wish_id(event.instance));
    if (wish != state.wishes.end()) {
        wish->second.refusal.clear();
        wish->second.failed = false;
    }
}

void mark_wish(State& state, Instance const& instance, InstanceDeleted const& event) {
    auto const found = state.wishes.find(wish_id(instance));
    if (found == state.wishes.end()) {
        return;
    }
    Wish& wish = found->second;
    wish.last_instance_id = event.instance_id;
    if (event.reason == DeletionReason::failed) {
        wish.failed = true;
        wish.refusal = event.message;
    }
}

char const* words_of(DeletionReason reason) {
    switch (reason) {
    case DeletionReason::user:
        return "the instance was deleted";
    case DeletionReason::node_lost:
        return "a node of the instance was lost";
    case DeletionReason::failed:
        return "the instance failed";
    case DeletionReason::duplicate:
        return "the instance was a duplicate and was closed";
    }
    return "the instance was deleted";
}

void on(State& state, InstanceDeleted const& event) {
    // A lost node must not forbid that its instance is adopted when it returns (M2).
    bool const leaves_tombstone = event.reason != DeletionReason::node_lost;
    if (leaves_tombstone && std::ranges::count(state.deleted_instances, event.instance_id) == 0) {
        push_bounded(state.deleted_instances, event.instance_id, tombstones_max);
    }
    auto const found = state.instances.find(event.instance_id);
    if (found == state.instances.end()) {
        return;
    }
    forget_runners_of_instance(state, found->second);
    mark_wish(state, found->second, event);
    state.instances.erase(found);
    std::string const why = words_of(event.reason);
    fail_open_tasks(
        state, event.instance_id, event.message.empty() ? why : why + ": " + event.message
    );
}

void on(State& state, InstanceRestarted const& event) {
    auto const found = state.instances.find(event.instance_id);
    if (found != state.instances.end() && generation(found->second) < event.generation) {
        set_generation(found->second, event.generation);
        forget_runners_of_instance(state, found->second);
    }
}

void on(State& state, RunnerStatusUpdated const& event) {
    Instance const* const instance = instance_of(state, event.runner_id);
    if (instance != nullptr && generation(*instance) == event.generation) {
        state.runners[event.runner_id] = event.runner_status;
    }
}

void on(State& state, TaskCreated const& event) {
    auto const [task, is_new] = state.tasks.try_emplace(task_id(event.task), event.task);
    if (is_new && is_terminal(task_status(event.task))) {
        finish_task(state, task->second, task_status(event.task), task_error(event.task));
    }
}

void on(State& state, TaskStatusUpdated const& event) {
    auto const found = state.tasks.find(event.task_id);
    if (found == state.tasks.end() || is_terminal(task_status(found->second))) {
        return; // A terminal status is final (T2).
    }
    if (is_terminal(event.task_status)) {
        finish_task(state, found->second, event.task_status, event.error_message);
    } else {
        set_task_status(found->second, event.task_status, event.error_message);
    }
}

void on(State& state, TaskDeleted const& event) {
    state.tasks.erase(event.task_id);
    std::erase(state.finished_tasks, event.task_id);
}

void on(State& state, CommandRecorded const& event) {
    auto const same_id = [&](auto const& outcome) {
        return outcome.command_id == event.command_id;
    };
    if (std::ranges::none_of(state.outcomes, same_id)) {
        ++state.commands_recorded;
        push_bounded(
            state.outcomes,
            {.command_id = event.command_id, .instance_id = event.instance_id},
            outcomes_max
        );
    }
}

} // namespace

void apply(State& state, std::int64_t index, Event const& event) {
    skip(state, index);
    std::visit([&](auto const& kind) { on(state, kind); }, event);
}

void skip(State& state, std::int64_t index) {
    EXO_ASSERT(index == state.last_event_applied_idx + 1);
    state.last_event_applied_idx = index;
}

} // namespace exo::cluster
