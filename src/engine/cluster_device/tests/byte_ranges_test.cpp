// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_device/byte_ranges.hpp"

#include <gtest/gtest.h>

namespace exo::engine {
namespace {

using Map = std::map<std::uintptr_t, std::uintptr_t>;

TEST(ByteRanges, ranges_that_overlap_or_touch_become_one) {
    ByteRanges ranges;
    ranges.add({10, 20});
    ranges.add({30, 40});
    EXPECT_EQ(ranges.all(), (Map{{10, 20}, {30, 40}}));
    ranges.add({20, 25});
    EXPECT_EQ(ranges.all(), (Map{{10, 25}, {30, 40}}));
    ranges.add({5, 35});
    EXPECT_EQ(ranges.all(), (Map{{5, 40}}));
    ranges.add({6, 7});
    EXPECT_EQ(ranges.all(), (Map{{5, 40}}));
    ranges.add({50, 50});
    EXPECT_EQ(ranges.all(), (Map{{5, 40}}));
}

TEST(ByteRanges, only_what_is_wholly_inside_is_covered) {
    ByteRanges ranges;
    ranges.add({10, 20});
    ranges.add({21, 30});
    EXPECT_TRUE(ranges.covers({10, 20}));
    EXPECT_TRUE(ranges.covers({12, 13}));
    EXPECT_TRUE(ranges.covers({5, 5}));
    EXPECT_FALSE(ranges.covers({9, 11}));
    EXPECT_FALSE(ranges.covers({19, 22}));
    EXPECT_FALSE(ranges.covers({30, 31}));
}

} // namespace
} // namespace exo::engine
