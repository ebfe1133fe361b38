// SPDX-License-Identifier: Apache-2.0
#include "net/dnssd/driver/clock_watch.hpp"

#include <gtest/gtest.h>

namespace exo::net::dnssd {
namespace {

using Wall = std::chrono::system_clock::time_point;

constexpr TimePoint steady{};
constexpr Wall wall{std::chrono::hours(500000)};

TEST(ClockWatch, sees_a_clock_that_is_set_back) {
    ClockWatch watch;
    EXPECT_FALSE(watch.is_set_back(steady, wall));
    EXPECT_FALSE(watch.is_set_back(steady + 5s, wall + 5s));
    EXPECT_TRUE(watch.is_set_back(steady + 10s, wall - 1h));
}

TEST(ClockWatch, does_not_mind_one_that_is_set_forward_but_remembers_it) {
    ClockWatch watch;
    EXPECT_FALSE(watch.is_set_back(steady, wall));
    EXPECT_FALSE(watch.is_set_back(steady + 5s, wall + 1h));
    EXPECT_TRUE(watch.is_set_back(steady + 10s, wall + 10s));
}

TEST(ClockWatch, does_not_mind_a_clock_that_is_slewed) {
    ClockWatch watch;
    EXPECT_FALSE(watch.is_set_back(steady, wall));
    EXPECT_FALSE(watch.is_set_back(steady + 1h, wall + 1h - ClockWatch::tolerance));
}

} // namespace
} // namespace exo::net::dnssd
