// SPDX-License-Identifier: Apache-2.0
//
// The owner of coroutines: starts them, cancels them all, and knows when none is left. A cancelled
// coroutine unwinds at its next co_await (Asio throws there), so destructors do the cleaning.
//
// One thread. Dropping the group cancels what is left; whatever a coroutine refers to must live
// until it has unwound.
#pragma once

#include "net/host/async.hpp"

#include <memory>

namespace exo::net {

class TaskGroup {
public:
    explicit TaskGroup(asio::any_io_executor executor);
    TaskGroup(TaskGroup const&) = delete;
    TaskGroup& operator=(TaskGroup const&) = delete;
    ~TaskGroup();

    // After cancel_all() nothing starts any more: `work` is dropped.
    void spawn(asio::awaitable<void> work);

    // Asks all to end. Idempotent.
    void cancel_all();

    // Returns when none is left.
    asio::awaitable<void> join();

    [[nodiscard]] std::size_t size() const;

private:
    struct State;
    std::shared_ptr<State> state_; // Shared with the coroutines' ends, which may come after us.
};

} // namespace exo::net
