// SPDX-License-Identifier: Apache-2.0
#include "net/host/pending_upgrades.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

TEST(PendingUpgrades, whoever_comes_gets_a_place_and_leaves_it) {
    PendingUpgrades door(2, 2);
    auto const first = door.admit("a");
    auto const second = door.admit("a");
    EXPECT_FALSE(first.evicted);
    EXPECT_FALSE(second.evicted);
    EXPECT_NE(first.ticket, second.ticket);
    door.remove(first.ticket);
    door.remove(first.ticket);
    EXPECT_EQ(door.size(), 1U);
    EXPECT_FALSE(door.admit("b").evicted);
}

TEST(PendingUpgrades, an_address_with_its_share_pushes_out_its_own_oldest) {
    PendingUpgrades door(10, 2);
    auto const other = door.admit("other");
    auto const oldest = door.admit("a");
    auto const next = door.admit("a");
    EXPECT_EQ(door.admit("a").evicted, oldest.ticket);
    EXPECT_EQ(door.admit("a").evicted, next.ticket);
    door.remove(oldest.ticket); // Has gone already.
    EXPECT_EQ(door.size(), 3U);
    door.remove(other.ticket);
    EXPECT_EQ(door.size(), 2U);
}

TEST(PendingUpgrades, a_full_door_turns_out_the_oldest_of_the_largest_crowd) {
    PendingUpgrades door(4, 3);
    auto const honest = door.admit("honest");
    auto const crowd = door.admit("crowd");
    (void)door.admit("crowd");
    (void)door.admit("crowd");
    EXPECT_EQ(door.admit("newcomer").evicted, crowd.ticket);
    EXPECT_EQ(door.size(), 4U);
    door.remove(honest.ticket);
    EXPECT_EQ(door.size(), 3U);
}

TEST(PendingUpgrades, among_equals_the_one_who_waits_longest_goes) {
    PendingUpgrades door(3, 3);
    auto const first = door.admit("z");
    auto const second = door.admit("a");
    (void)door.admit("m");
    EXPECT_EQ(door.admit("b").evicted, first.ticket);
    EXPECT_EQ(door.admit("c").evicted, second.ticket);
}

// A flood from one place, however large, never pushes out a stranger of another.
TEST(PendingUpgrades, a_flood_does_not_push_out_others) {
    PendingUpgrades door(64, 16);
    auto const honest = door.admit("10.0.0.7");
    for (int i = 0; i < 10'000; ++i) {
        auto const admitted = door.admit("10.0.0." + std::to_string(100 + i % 20));
        ASSERT_NE(admitted.evicted, honest.ticket) << i;
        ASSERT_LE(door.size(), 64U);
    }
}

} // namespace
} // namespace exo::net
