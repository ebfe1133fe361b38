// SPDX-License-Identifier: Apache-2.0
//
// Small Asio tools of the drivers: errors as values, a condition to wait for, and a deadline for
// any awaitable. All of it on one thread.
#pragma once

#include "base/result.hpp"
#include "base/time.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <optional>
#include <utility>

namespace exo::net {

namespace asio = boost::asio;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);

[[nodiscard]] inline TimePoint now() {
    return std::chrono::steady_clock::now();
}

// For texts: "within {} s".
[[nodiscard]] inline double seconds_of(Duration duration) {
    return std::chrono::duration<double>(duration).count();
}

// Wakes coroutines that wait for something to change. Nothing runs between a check of that
// something and wait(), so no wake-up is lost:
//
//     while (!ready) { co_await signal.wait(); }
class Signal {
public:
    explicit Signal(asio::any_io_executor const& executor)
        : timer_(executor, TimePoint::max()) {}

    void notify() { timer_.cancel(); }

    // Until the next notify() or cancellation.
    asio::awaitable<void> wait() { co_await timer_.async_wait(as_value); }

    // The same, until `deadline` at most.
    asio::awaitable<void> wait_until(TimePoint deadline);

private:
    asio::steady_timer timer_; // Never expires; waiting for it is waiting for its cancellation.
};

asio::awaitable<void> pause_until(TimePoint deadline);

// The result of `work`, or nothing if it has not come by `deadline`; then `work` is cancelled and
// has ended.
template <class T>
asio::awaitable<std::optional<T>> before(TimePoint deadline, asio::awaitable<T> work) {
    using namespace asio::experimental::awaitable_operators;
    auto const executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, deadline);
    auto first = co_await (std::move(work) || timer.async_wait(asio::use_awaitable));
    if (first.index() != 0) {
        co_return std::nullopt;
    }
    co_return std::optional<T>(std::get<0>(std::move(first)));
}

} // namespace exo::net
