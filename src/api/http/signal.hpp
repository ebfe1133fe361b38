// SPDX-License-Identifier: Apache-2.0
//
// Wakes one waiting coroutine. A notify() that comes while nobody waits is kept for the next wait.
// One thread.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace exo::api::http {

// Errors are values, not exceptions.
constexpr auto as_value = boost::asio::as_tuple(boost::asio::use_awaitable);

using Clock = std::chrono::steady_clock;

class Signal {
public:
    explicit Signal(boost::asio::any_io_executor executor)
        : timer_(std::move(executor)) {}

    void notify() {
        notified_ = true;
        timer_.cancel();
    }

    // Until notify() or `deadline`, whichever is first. REQUIRES: one waits at a time.
    boost::asio::awaitable<void> wait_until(Clock::time_point deadline) {
        if (!notified_) {
            timer_.expires_at(deadline);
            co_await timer_.async_wait(as_value);
        }
        notified_ = false;
    }

private:
    boost::asio::steady_timer timer_;
    bool notified_ = false;
};

} // namespace exo::api::http
