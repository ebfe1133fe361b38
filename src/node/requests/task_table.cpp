// SPDX-License-Identifier: Apache-2.0
#include "node/requests/task_table.hpp"

#include "base/overloaded.hpp"

#include <fmt/format.h>

namespace exo::node {
namespace {

using model::TaskStatus;

// The status that a terminal event gives its task; none for the others.
std::optional<TaskStatus> status_after(model::GenerationEvent const& event) {
    return std::visit(
        Overloaded{
            [](model::PrefillProgress const&) -> std::optional<TaskStatus> { return {}; },
            [](model::TokenDelta const&) -> std::optional<TaskStatus> { return {}; },
            [](model::GenerationFinished const&) -> std::optional<TaskStatus> {
                return TaskStatus::complete;
            },
            [](model::GenerationFailed const&) -> std::optional<TaskStatus> {
                return TaskStatus::failed;
            },
        },
        event
    );
}

} // namespace

Result<void> TaskTable::open(OpenTask const& open) {
    auto const& id = open.request.task_id;
    if (auto const known = tasks_.find(id); known != tasks_.end()) {
        ++known->second.clients;
        known->second.lost_at.reset();
        return {};
    }
    if (open.resume) {
        return Error(Errc::not_found, "the answer is gone: its task is not known here any more");
    }
    if (tasks_.size() >= tasks_max) {
        return Error(
            Errc::limit, fmt::format("{} requests are open on this node already", tasks_.size())
        );
    }
    // Entered before the start: the runner's first event may come from within it.
    Entry entry;
    entry.task.task_id = id;
    entry.task.instance_id = open.instance_id;
    entry.task.task_status = TaskStatus::running;
    entry.task.model = open.request.model;
    entry.clients = 1;
    tasks_.emplace(id, std::move(entry));
    if (auto started = hooks_.start(open.instance_id, open.request); !started) {
        tasks_.erase(id);
        return started;
    }
    hooks_.levels_changed();
    return {};
}

std::size_t TaskTable::first_event(model::TaskId const& id, std::uint64_t next_number) const {
    auto const task = tasks_.find(id);
    if (task == tasks_.end() || next_number == 0) {
        return 0;
    }
    auto const& events = task->second.events;
    std::size_t index = 0;
    for (; index < events.size(); ++index) {
        auto const* const delta = std::get_if<model::TokenDelta>(&events[index]);
        bool const terminal = status_after(events[index]).has_value();
        if (terminal || (delta != nullptr && delta->number >= next_number)) {
            break;
        }
    }
    return index;
}

std::vector<model::GenerationEvent> const* TaskTable::events(model::TaskId const& id) const {
    auto const task = tasks_.find(id);
    return task == tasks_.end() ? nullptr : &task->second.events;
}

void TaskTable::cancel(model::TaskId const& id, TimePoint now) {
    auto const task = tasks_.find(id);
    if (task == tasks_.end() || task->second.ended_at) {
        return;
    }
    hooks_.cancel(task->second.task.instance_id, id);
    task->second.events.emplace_back(
        model::GenerationFailed{to_string(Errc::cancelled), "the request was cancelled"}
    );
    end(task->second, TaskStatus::cancelled, "", now);
}

void TaskTable::client_lost(model::TaskId const& id, TimePoint now) {
    auto const task = tasks_.find(id);
    if (task == tasks_.end() || task->second.clients == 0) {
        return;
    }
    if (--task->second.clients == 0) {
        task->second.lost_at = now;
    }
}

void TaskTable::on_event(model::TaskId const& id, model::GenerationEvent event, TimePoint now) {
    auto const task = tasks_.find(id);
    // Ended: a runner may say something that crossed with a cancellation.
    if (task == tasks_.end() || task->second.ended_at) {
        return;
    }
    auto const status = status_after(event);
    std::string message;
    if (auto const* const failed = std::get_if<model::GenerationFailed>(&event)) {
        message = failed->message;
    }
    task->second.events.push_back(std::move(event));
    if (status) {
        end(task->second, *status, std::move(message), now);
    } else {
        hooks_.events_added();
    }
}

void TaskTable::instance_ended(
    model::InstanceId const& id, std::string const& message, TimePoint now
) {
    for (auto& [task_id, entry] : tasks_) {
        if (entry.task.instance_id == id && !entry.ended_at) {
            entry.events.emplace_back(model::GenerationFailed{to_string(Errc::unavailable), message}
            );
            end(entry, TaskStatus::failed, message, now);
        }
    }
}

void TaskTable::tick(model::State const& state, TimePoint now) {
    for (auto task = tasks_.begin(); task != tasks_.end();) {
        auto& entry = task->second;
        if (!entry.ended_at && entry.lost_at && now - *entry.lost_at >= resume_limit) {
            cancel(task->first, now);
        }
        auto const known = state.tasks.find(task->first);
        bool const told = known != state.tasks.end() && is_terminal(task_status(known->second));
        bool const old = entry.ended_at && now - *entry.ended_at >= kept_after_end;
        bool const forgotten = entry.ended_at && now - *entry.ended_at >= level_limit;
        task = (old && told) || forgotten ? tasks_.erase(task) : std::next(task);
    }
}

std::map<model::TaskId, model::Task> TaskTable::levels() const {
    std::map<model::TaskId, model::Task> levels;
    for (auto const& [id, entry] : tasks_) {
        levels.emplace(id, entry.task);
    }
    return levels;
}

void TaskTable::end(Entry& entry, TaskStatus status, std::string message, TimePoint now) {
    entry.task.task_status = status;
    entry.task.error_message = std::move(message);
    entry.ended_at = now;
    hooks_.events_added();
    hooks_.levels_changed();
}

} // namespace exo::node
