// SPDX-License-Identifier: Apache-2.0
#include "collective/local_group.hpp"

#include <gtest/gtest.h>

namespace exo::collective {
namespace {

TEST(LocalGroup, is_rank_0_of_1) {
    LocalGroup const group;
    EXPECT_EQ(group.rank(), 0u);
    EXPECT_EQ(group.size(), 1u);
}

TEST(LocalGroup, changes_nothing) {
    LocalGroup group;
    std::vector<float> values{1, 2, 3};
    ASSERT_TRUE(group.all_reduce(values));
    EXPECT_EQ(values, (std::vector<float>{1, 2, 3}));
    Bytes all(2);
    ASSERT_TRUE(group.all_gather(Bytes{1, 2}, all));
    EXPECT_EQ(all, (Bytes{1, 2}));
}

TEST(LocalGroup, keeps_the_first_error) {
    LocalGroup group;
    group.fail(Error(Errc::cancelled, "first"));
    group.fail(Error(Errc::io, "second"));
    EXPECT_EQ(group.health().error().text(), "first");
    EXPECT_FALSE(group.barrier());
}

} // namespace
} // namespace exo::collective
