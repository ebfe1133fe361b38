// SPDX-License-Identifier: Apache-2.0
#include "net/host/refusals.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

constexpr TimePoint start{};

TEST(Refusals, are_counted_by_address_the_last_one_first) {
    Refusals refusals;
    refusals.add("10.0.0.1", "garbage", start);
    refusals.add("10.0.0.2", "garbage", start + 1s);
    refusals.add("10.0.0.1", "wrong key", start + 2s);
    auto const facts = refusals.facts();
    ASSERT_EQ(facts.size(), 2U);
    EXPECT_EQ(facts[0].ip, "10.0.0.1");
    EXPECT_EQ(facts[0].reason, "wrong key");
    EXPECT_EQ(facts[0].count, 2U);
    EXPECT_EQ(facts[0].last, start + 2s);
    EXPECT_EQ(facts[1].ip, "10.0.0.2");
}

TEST(Refusals, of_64_addresses_are_kept) {
    Refusals refusals;
    for (int i = 0; i < 100; ++i) {
        refusals.add("10.0.0." + std::to_string(i), "garbage", start + i * 1s);
    }
    auto const facts = refusals.facts();
    ASSERT_EQ(facts.size(), 64U);
    EXPECT_EQ(facts.front().ip, "10.0.0.99");
    EXPECT_EQ(facts.back().ip, "10.0.0.36");
}

} // namespace
} // namespace exo::net
