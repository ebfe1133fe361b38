// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/link_probe.hpp"

#include <gtest/gtest.h>

#include <set>

namespace exo::collective {
namespace {

TEST(LinkProbe, every_two_ranks_meet_once_and_nobody_meets_two_in_a_round) {
    for (std::uint32_t size = 2; size <= 17; ++size) {
        std::set<std::pair<std::uint32_t, std::uint32_t>> met;
        for (std::uint32_t round = 0; round < rounds_of(size); ++round) {
            for (std::uint32_t rank = 0; rank < size; ++rank) {
                auto const partner = partner_of(rank, size, round);
                if (!partner) {
                    continue;
                }
                ASSERT_NE(*partner, rank);
                ASSERT_EQ(partner_of(*partner, size, round), rank);
                if (rank < *partner) {
                    EXPECT_TRUE(met.emplace(rank, *partner).second);
                }
            }
        }
        EXPECT_EQ(met.size(), std::size_t{size} * (size - 1) / 2) << size << " ranks";
    }
}

} // namespace
} // namespace exo::collective
