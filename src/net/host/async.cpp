// SPDX-License-Identifier: Apache-2.0
#include "net/host/async.hpp"

namespace exo::net {

asio::awaitable<void> pause_until(TimePoint deadline) {
    auto const executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, deadline);
    co_await timer.async_wait(as_value);
}

asio::awaitable<void> Signal::wait_until(TimePoint deadline) {
    using namespace asio::experimental::awaitable_operators;
    co_await (wait() || pause_until(deadline));
}

} // namespace exo::net
