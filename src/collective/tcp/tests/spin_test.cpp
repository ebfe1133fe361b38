// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/spin.hpp"
#include "collective/tcp/tcp_group.hpp"

#include <gtest/gtest.h>

namespace exo::collective {
namespace {

std::uint32_t waits_until_the_next_spin(SpinPolicy& policy) {
    std::uint32_t waits = 0;
    while (!policy.next_wait_spins()) {
        ++waits;
    }
    return waits;
}

TEST(SpinPolicy, goes_on_while_it_pays) {
    SpinPolicy policy;
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(policy.next_wait_spins());
        policy.paid();
    }
}

TEST(SpinPolicy, tries_more_and_more_seldom_while_others_need_the_core) {
    SpinPolicy policy;
    for (std::uint32_t const expected : {0u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 256u, 256u, 256u}) {
        EXPECT_EQ(waits_until_the_next_spin(policy), expected);
        policy.core_was_taken();
    }
}

TEST(SpinPolicy, starts_anew_when_it_has_paid_once) {
    SpinPolicy policy;
    for (int i = 0; i < 20; ++i) {
        policy.core_was_taken();
    }
    (void)waits_until_the_next_spin(policy);
    policy.paid();
    EXPECT_TRUE(policy.next_wait_spins());
    policy.core_was_taken();
    EXPECT_EQ(waits_until_the_next_spin(policy), 2u);
}

TEST(SpinTime, is_none_when_the_cores_are_all_needed) {
    EXPECT_GT(spin_time(4, 4), Duration(0));
    EXPECT_EQ(spin_time(4, 5), Duration(0));
}

} // namespace
} // namespace exo::collective
