// SPDX-License-Identifier: Apache-2.0
//
// Rank 0's side of a request: takes generate_protocol streams from API nodes, starts or resumes
// their tasks and writes the events as they come. A slow reader slows only its own stream.
#pragma once

#include "net/host/host.hpp"
#include "node/requests/task_table.hpp"
#include "node/scope.hpp"

namespace exo::node {

class GenerateService {
public:
    // Registers with the host; `table` and `changed` outlive the host.
    GenerateService(net::Host& host, TaskTable& table, Notify& changed);

private:
    asio::awaitable<void> serve(std::unique_ptr<net::Stream> stream);

    TaskTable& table_;
    Notify& changed_;
};

// Gives `on_event` each event of the task from the index `next` on; completes after the terminal
// one, or when the task is forgotten. `on_event` returns false to stop early.
asio::awaitable<void> follow_task(
    TaskTable& table,
    Notify& changed,
    model::TaskId id,
    std::size_t next,
    std::function<asio::awaitable<bool>(model::GenerationEvent)> on_event
);

[[nodiscard]] bool is_terminal(model::GenerationEvent const& event);

} // namespace exo::node
