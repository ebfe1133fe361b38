// SPDX-License-Identifier: Apache-2.0
//
// All ranks of a schedule are carried out in one thread, and every message must meet its receiver.
#include "base/random.hpp"
#include "collective/schedules/schedule.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace exo::collective {
namespace {

using Values = std::vector<float>;
// (from, to) -> the values on their way, in order.
using Wire = std::map<std::pair<std::uint32_t, std::uint32_t>, Values>;

// Values of very different sizes, so that another order of summing gives other bits.
std::vector<Values> inputs(std::uint32_t size, std::size_t count) {
    Random random(size * 1000 + count);
    std::vector<Values> all(size, Values(count));
    for (auto& values : all) {
        for (auto& value : values) {
            auto const mantissa = static_cast<float>(random.below(2'000'001)) - 1'000'000.0f;
            value = mantissa * std::ldexp(1.0f, static_cast<int>(random.below(40)) - 30);
        }
    }
    return all;
}

void send_all(Step const& step, std::uint32_t rank, Values const& values, Wire& wire) {
    for (auto const& move : step.sends) {
        auto& on_wire = wire[{rank, move.peer}];
        auto const first = values.begin() + static_cast<std::ptrdiff_t>(move.range.first);
        on_wire.insert(on_wire.end(), first, first + static_cast<std::ptrdiff_t>(move.range.count));
    }
}

void receive_all(Step const& step, std::uint32_t rank, Values& values, Wire& wire) {
    Values arrivals;
    for (auto const& move : step.receives) {
        auto const found = wire.find({move.peer, rank});
        ASSERT_NE(found, wire.end()) << "nothing from " << move.peer << " to " << rank;
        ASSERT_EQ(found->second.size(), move.range.count);
        if (step.arrival == Step::Arrival::sum) {
            ASSERT_EQ(move.range, step.receives[0].range);
            arrivals.insert(arrivals.end(), found->second.begin(), found->second.end());
        } else {
            std::ranges::copy(
                found->second, values.begin() + static_cast<std::ptrdiff_t>(move.range.first)
            );
        }
        wire.erase(found);
    }
    if (step.arrival == Step::Arrival::sum && !step.receives.empty()) {
        auto const range = step.receives[0].range;
        sum_in_rank_order(
            step, rank, std::span(values).subspan(range.first, range.count), arrivals
        );
    }
}

std::vector<Values> all_reduce(Algorithm algorithm, std::vector<Values> ranks) {
    auto const size = static_cast<std::uint32_t>(ranks.size());
    std::vector<Schedule> schedules;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        schedules.push_back(all_reduce_schedule(algorithm, rank, size, ranks[rank].size()));
        EXPECT_EQ(schedules[rank].size(), schedules[0].size());
    }
    for (std::size_t step = 0; step < schedules[0].size(); ++step) {
        Wire wire;
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            send_all(schedules[rank][step], rank, ranks[rank], wire);
        }
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            receive_all(schedules[rank][step], rank, ranks[rank], wire);
        }
        EXPECT_TRUE(wire.empty()) << "a message that nobody receives";
    }
    return ranks;
}

Values sum_by_rank(std::vector<Values> const& ranks) {
    Values sum = ranks[0];
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
        for (std::size_t i = 0; i < sum.size(); ++i) {
            sum[i] += ranks[rank][i];
        }
    }
    return sum;
}

constexpr std::size_t counts[] = {0, 1, 2, 3, 7, 16, 17, 100, 1000};

constexpr char const* names[] = {"automatic", "direct", "halves", "ring"};

std::string name_of(testing::TestParamInfo<std::tuple<Algorithm, std::uint32_t>> const& row) {
    auto const [algorithm, size] = row.param;
    return fmt::format("{}_of_{}", names[static_cast<std::size_t>(algorithm)], size);
}

class AllReduce : public testing::TestWithParam<std::tuple<Algorithm, std::uint32_t>> {};

TEST_P(AllReduce, gives_all_ranks_the_same_bits) {
    auto const [algorithm, size] = GetParam();
    for (auto const count : counts) {
        auto const results = all_reduce(algorithm, inputs(size, count));
        for (auto const& result : results) {
            ASSERT_EQ(result, results[0]) << count << " values";
        }
    }
}

TEST_P(AllReduce, sums_in_rank_order_unless_it_is_the_ring) {
    auto const [algorithm, size] = GetParam();
    for (auto const count : counts) {
        auto const start = inputs(size, count);
        auto const expected = sum_by_rank(start);
        auto const result = all_reduce(algorithm, start)[0];
        for (std::size_t i = 0; i < count; ++i) {
            if (algorithm != Algorithm::ring) {
                ASSERT_EQ(result[i], expected[i]);
            }
        }
    }
}

TEST_P(AllReduce, of_whole_numbers_is_exact) {
    auto const [algorithm, size] = GetParam();
    std::vector<Values> ranks(size, Values(50));
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        for (std::size_t i = 0; i < 50; ++i) {
            ranks[rank][i] = static_cast<float>(rank * 100 + i);
        }
    }
    EXPECT_EQ(all_reduce(algorithm, ranks)[0], sum_by_rank(ranks));
}

// A transport may write what arrives while it still sends.
TEST_P(AllReduce, never_replaces_a_range_that_is_sent_in_the_same_step) {
    auto const [algorithm, size] = GetParam();
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        for (auto const& step : all_reduce_schedule(algorithm, rank, size, 100)) {
            if (step.arrival == Step::Arrival::sum) {
                continue;
            }
            for (auto const& send : step.sends) {
                for (auto const& receive : step.receives) {
                    bool const apart =
                        send.range.first + send.range.count <= receive.range.first ||
                        receive.range.first + receive.range.count <= send.range.first;
                    EXPECT_TRUE(apart);
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Worlds,
    AllReduce,
    testing::Combine(
        testing::Values(Algorithm::direct, Algorithm::halves, Algorithm::ring),
        testing::Range(1u, 17u)
    ),
    name_of
);

TEST(Schedule, the_parts_cover_all_values_once_and_differ_by_one_at_most) {
    for (std::uint32_t size = 1; size <= 16; ++size) {
        for (auto const count : counts) {
            std::size_t next = 0;
            for (std::uint32_t rank = 0; rank < size; ++rank) {
                auto const part = part_of(count, size, rank);
                EXPECT_EQ(part.first, next);
                EXPECT_LE(part.count, count / size + 1);
                EXPECT_GE(part.count, count / size);
                next += part.count;
            }
            EXPECT_EQ(next, count);
        }
    }
}

TEST(Schedule, a_ring_speaks_to_its_neighbours_only) {
    for (auto const& step : all_reduce_schedule(Algorithm::ring, 2, 5, 100)) {
        for (auto const& send : step.sends) {
            EXPECT_EQ(send.peer, 3u);
        }
        for (auto const& receive : step.receives) {
            EXPECT_EQ(receive.peer, 1u);
        }
    }
}

TEST(Schedule, halves_send_less_than_direct) {
    auto const sent = [](Algorithm algorithm) {
        std::size_t count = 0;
        for (auto const& step : all_reduce_schedule(algorithm, 0, 4, 1000)) {
            for (auto const& send : step.sends) {
                count += send.range.count;
            }
        }
        return count;
    };
    EXPECT_EQ(sent(Algorithm::direct), 3000u);
    EXPECT_EQ(sent(Algorithm::halves), 1500u);
    EXPECT_EQ(sent(Algorithm::ring), 1500u);
}

TEST(Schedule, small_sums_go_direct_and_large_ones_in_halves) {
    EXPECT_EQ(choose(2048, 4), Algorithm::direct);
    EXPECT_EQ(choose(1 << 20, 4), Algorithm::halves);
    EXPECT_EQ(choose(1 << 20, 2), Algorithm::direct);
    EXPECT_EQ(choose(2048, 16), Algorithm::direct);
    EXPECT_EQ(choose(8192, 16), Algorithm::halves);
}

} // namespace
} // namespace exo::collective
