// SPDX-License-Identifier: Apache-2.0
//
// A request as the cluster sees it: ids and counts, never the prompt.
#pragma once

#include "model/ids.hpp"

#include <string>
#include <variant>

namespace exo::model {

enum class TaskStatus { pending, running, complete, timed_out, failed, cancelled };

// Complete, TimedOut, Failed, Cancelled: never changed again (specs/cluster.md T2).
[[nodiscard]] bool is_terminal(TaskStatus status);

struct TextGeneration {
    TaskId task_id;
    InstanceId instance_id;
    TaskStatus task_status = TaskStatus::pending;
    ModelId model;
    std::string error_message;

    bool operator==(TextGeneration const&) const = default;
};

using Task = std::variant<TextGeneration>;

[[nodiscard]] TaskId const& task_id(Task const& task);
[[nodiscard]] InstanceId const& task_instance(Task const& task);
[[nodiscard]] TaskStatus task_status(Task const& task);
[[nodiscard]] std::string const& task_error(Task const& task);
void set_task_status(Task& task, TaskStatus status, std::string error_message);

} // namespace exo::model
