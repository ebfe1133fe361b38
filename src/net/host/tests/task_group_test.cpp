// SPDX-License-Identifier: Apache-2.0
#include "net/host/task_group.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <stdexcept>

namespace exo::net {
namespace {

class TaskGroupTest : public testing::Test {
protected:
    asio::awaitable<void> wait_for_ever() {
        struct Unwound {
            int& count;

            ~Unwound() { ++count; }
        };

        ++started_;
        Unwound const unwound{unwound_};
        co_await pause_until(TimePoint::max());
        co_await pause_until(TimePoint::max()); // Asio throws here.
        ++finished_;
    }

    asio::awaitable<void> throw_something() {
        co_await pause_until(now());
        throw std::runtime_error("a bug");
    }

    // Runs what can run without waiting.
    void poll() {
        io_.restart();
        io_.poll();
    }

    asio::io_context io_{1};
    int started_ = 0;
    int unwound_ = 0;
    int finished_ = 0;
};

TEST_F(TaskGroupTest, cancelling_unwinds_all_coroutines) {
    TaskGroup group(io_.get_executor());
    group.spawn(wait_for_ever());
    group.spawn(wait_for_ever());
    poll();
    EXPECT_EQ(started_, 2);
    EXPECT_EQ(group.size(), 2u);
    group.cancel_all();
    poll();
    EXPECT_EQ(group.size(), 0u);
    EXPECT_EQ(unwound_, 2);
    EXPECT_EQ(finished_, 0);
}

TEST_F(TaskGroupTest, join_waits_for_the_last_one) {
    TaskGroup group(io_.get_executor());
    group.spawn(wait_for_ever());
    bool joined = false;
    asio::co_spawn(io_, group.join(), [&](std::exception_ptr) { joined = true; });
    poll();
    EXPECT_FALSE(joined);
    group.cancel_all();
    poll();
    EXPECT_TRUE(joined);
}

TEST_F(TaskGroupTest, nothing_starts_after_cancelling) {
    TaskGroup group(io_.get_executor());
    group.cancel_all();
    group.spawn(wait_for_ever());
    poll();
    EXPECT_EQ(started_, 0);
    EXPECT_EQ(group.size(), 0u);
}

TEST_F(TaskGroupTest, dropping_the_group_cancels_what_is_left) {
    {
        TaskGroup group(io_.get_executor());
        group.spawn(wait_for_ever());
        poll();
    }
    poll();
    EXPECT_EQ(unwound_, 1);
}

TEST_F(TaskGroupTest, a_coroutine_that_throws_does_not_take_others_with_it) {
    TaskGroup group(io_.get_executor());
    group.spawn(throw_something());
    group.spawn(wait_for_ever());
    io_.run_for(50ms);
    EXPECT_EQ(group.size(), 1u);
    EXPECT_EQ(unwound_, 0);
    group.cancel_all();
    poll();
}

TEST_F(TaskGroupTest, the_context_may_go_before_its_coroutines_end) {
    int unwound = 0;
    {
        asio::io_context io(1);
        TaskGroup group(io.get_executor());
        auto wait = [](int& count) -> asio::awaitable<void> {
            struct Unwound {
                int& the_count;

                ~Unwound() { ++the_count; }
            };
            Unwound const at_exit{count};
            co_await pause_until(TimePoint::max());
        };
        group.spawn(wait(unwound));
        io.poll();
    }
    EXPECT_EQ(unwound, 1);
}

TEST_F(TaskGroupTest, before_gives_the_result_or_nothing_at_the_deadline) {
    auto quick = []() -> asio::awaitable<int> { co_return 7; };
    auto slow = []() -> asio::awaitable<int> {
        co_await pause_until(TimePoint::max());
        co_return 8;
    };
    std::optional<int> first;
    std::optional<int> second = 0;
    auto both = [&]() -> asio::awaitable<void> {
        first = co_await before(now() + 1h, quick());
        second = co_await before(now() + 10ms, slow());
    };
    asio::co_spawn(io_, both(), [](std::exception_ptr thrown) { EXPECT_FALSE(thrown); });
    io_.run_for(1s);
    EXPECT_EQ(first, 7);
    EXPECT_FALSE(second);
}

} // namespace
} // namespace exo::net
