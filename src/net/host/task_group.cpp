// SPDX-License-Identifier: Apache-2.0
#include "net/host/task_group.hpp"

#include "base/log.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/multiple_exceptions.hpp>
#include <boost/system/system_error.hpp>

#include <exception>
#include <iterator>
#include <list>

namespace exo::net {
namespace {

// Cancellation arrives as an exception of Asio, and is how most coroutines end. Anything else is a
// bug of the coroutine; the others go on.
void report(std::exception_ptr const& thrown) {
    if (!thrown) {
        return;
    }
    try {
        std::rethrow_exception(thrown);
    } catch (boost::system::system_error const& error) {
        if (error.code() != asio::error::operation_aborted) {
            log::error("net", "a coroutine ended by an exception: {}", error.what());
        }
    } catch (asio::multiple_exceptions const&) {
        // Two halves of a coroutine, both cancelled.
    } catch (std::exception const& error) {
        log::error("net", "a coroutine ended by an exception: {}", error.what());
    }
}

} // namespace

struct TaskGroup::State {
    explicit State(asio::any_io_executor group_executor)
        : executor(std::move(group_executor))
        , ended(executor) {}

    asio::any_io_executor executor;
    std::list<asio::cancellation_signal> signals; // One a running coroutine.
    Signal ended;
    bool cancelled = false;
};

TaskGroup::TaskGroup(asio::any_io_executor executor)
    : state_(std::make_shared<State>(std::move(executor))) {}

TaskGroup::~TaskGroup() {
    cancel_all();
}

void TaskGroup::spawn(asio::awaitable<void> work) {
    if (state_->cancelled) {
        return;
    }
    auto const signal = state_->signals.emplace(state_->signals.end());
    auto on_end = [state = state_, signal](std::exception_ptr thrown) {
        report(thrown);
        state->signals.erase(signal);
        state->ended.notify();
    };
    asio::co_spawn(
        state_->executor,
        std::move(work),
        asio::bind_cancellation_slot(signal->slot(), std::move(on_end))
    );
}

void TaskGroup::cancel_all() {
    state_->cancelled = true;
    for (auto signal = state_->signals.begin(); signal != state_->signals.end();) {
        auto const next = std::next(signal); // It may end, and be erased, right here.
        signal->emit(asio::cancellation_type::terminal);
        signal = next;
    }
}

asio::awaitable<void> TaskGroup::join() {
    auto const state = state_;
    while (!state->signals.empty()) {
        co_await state->ended.wait();
    }
}

std::size_t TaskGroup::size() const {
    return state_->signals.size();
}

} // namespace exo::net
