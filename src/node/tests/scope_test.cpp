// SPDX-License-Identifier: Apache-2.0
#include "node/scope.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

namespace exo::node {
namespace {

// Counts the coroutines that are alive.
struct Alive {
    explicit Alive(int& count_in)
        : count(count_in) {
        ++count;
    }

    ~Alive() { --count; }

    Alive(Alive const&) = delete;
    Alive& operator=(Alive const&) = delete;
    int& count;
};

asio::awaitable<void> wait_for_ever(int& count) {
    Alive const alive(count);
    while (true) {
        co_await sleep_for(1h);
    }
}

asio::awaitable<void> wait_for(Notify& notify, int& woken) {
    co_await notify.wait(1h);
    ++woken;
}

void rethrow(std::exception_ptr failure) {
    if (failure) {
        std::rethrow_exception(failure);
    }
}

TEST(Scope, stop_ends_all_and_completes_when_the_last_has_ended) {
    int count = 0;
    asio::io_context context;
    Scope scope(context.get_executor());
    for (int i = 0; i < 3; ++i) {
        scope.spawn("waiting", wait_for_ever(count));
    }
    context.poll();
    EXPECT_EQ(count, 3);
    asio::co_spawn(context, scope.stop(), rethrow);
    context.run();
    EXPECT_EQ(count, 0);
}

TEST(Scope, a_dropped_handle_ends_its_coroutine_only) {
    int owned = 0;
    int other = 0; // Before the context: what still waits then ends with that.
    asio::io_context context;
    Scope scope(context.get_executor());
    auto handle = scope.spawn_owned("owned", wait_for_ever(owned));
    scope.spawn("other", wait_for_ever(other));
    context.poll();
    handle.reset();
    context.poll();
    EXPECT_EQ(owned, 0);
    EXPECT_EQ(other, 1);
}

TEST(Scope, a_handle_may_outlive_what_it_owns) {
    int woken = 0;
    Notify notify;
    asio::io_context context;
    Scope scope(context.get_executor());
    auto const handle = scope.spawn_owned("short", wait_for(notify, woken));
    context.poll();
    notify.notify();
    context.poll();
    EXPECT_EQ(woken, 1);
}

TEST(Notify, wakes_all_that_wait) {
    Notify notify;
    int woken = 0;
    asio::io_context context;
    Scope scope(context.get_executor());
    scope.spawn("first", wait_for(notify, woken));
    scope.spawn("second", wait_for(notify, woken));
    context.poll();
    EXPECT_EQ(woken, 0);
    notify.notify();
    context.run();
    EXPECT_EQ(woken, 2);
}

} // namespace
} // namespace exo::node
