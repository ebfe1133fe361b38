// SPDX-License-Identifier: Apache-2.0
//
// The owner of coroutines: whatever is spawned here ends before stop() completes. One thread.
#pragma once

#include "base/time.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>

#include <list>
#include <memory>
#include <string>

namespace exo::node {

namespace asio = boost::asio;

class Scope {
public:
    explicit Scope(asio::any_io_executor executor);
    // Cancels what still runs. Its coroutines may unwind after this; they must not touch what dies
    // with the scope, so an owner with such state awaits stop() first.
    ~Scope();
    Scope(Scope const&) = delete;
    Scope& operator=(Scope const&) = delete;

    // Runs `work` until it returns or is cancelled. `name` is for the log, if it throws.
    void spawn(std::string name, asio::awaitable<void> work);

    // The same, cancelled also when the handle is dropped.
    class Handle;
    [[nodiscard]] std::unique_ptr<Handle> spawn_owned(std::string name, asio::awaitable<void> work);

    // Cancels all and completes when the last has ended.
    asio::awaitable<void> stop();

    [[nodiscard]] asio::any_io_executor executor() const { return executor_; }

private:
    struct Work {
        asio::cancellation_signal cancel;
        bool ended = false;
    };

    // Shared with the completion handlers, which may run after the scope is gone.
    struct Running {
        explicit Running(asio::any_io_executor const& executor)
            : idle(executor) {}

        std::list<std::shared_ptr<Work>> works;
        asio::steady_timer idle; // Cancelled, that is signalled, when `works` becomes empty.
    };

    std::shared_ptr<Work> start(std::string name, asio::awaitable<void> work);
    static void cancel_all(Running& running);

    asio::any_io_executor executor_;
    std::shared_ptr<Running> running_;
};

class Scope::Handle {
public:
    Handle(asio::any_io_executor executor, std::shared_ptr<Work> work)
        : executor_(std::move(executor))
        , work_(std::move(work)) {}

    ~Handle();
    Handle(Handle const&) = delete;
    Handle& operator=(Handle const&) = delete;

private:
    asio::any_io_executor executor_;
    std::shared_ptr<Work> work_;
};

// Wakes coroutines that wait for a change of something.
class Notify {
public:
    Notify() = default;
    Notify(Notify const&) = delete;
    Notify& operator=(Notify const&) = delete;

    // Wakes all that wait now.
    void notify();

    // Until the next notify(), at most `limit`.
    asio::awaitable<void> wait(Duration limit);

private:
    std::list<asio::steady_timer*> waiting_; // Each lives in its coroutine's frame.
};

// Completes after `time`, or throws operation_aborted when its coroutine is cancelled.
asio::awaitable<void> sleep_for(Duration time);

} // namespace exo::node
