// SPDX-License-Identifier: Apache-2.0
//
// All ranks of a schedule are carried out in one thread, and every message must meet its receiver.
#include "base/random.hpp"
#include "collective/schedules/schedule.hpp"
#include "collective/wire/wire_format.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <tuple>

namespace exo::collective {
namespace {

using Values = std::vector<float>;
// (from, to) -> the message on its way.
using Wire = std::map<std::pair<std::uint32_t, std::uint32_t>, Bytes>;

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

std::span<float> part(Values& values, Range range) {
    return std::span(values).subspan(range.first, range.count);
}

void send_all(
    Step const& step, std::uint32_t rank, WireFormat format, Values const& values, Wire& wire
) {
    for (auto const& move : step.sends) {
        auto& message = wire[{rank, move.peer}];
        ASSERT_TRUE(message.empty()) << "two messages to one rank";
        message.resize(wire_bytes(format, move.range.count));
        to_wire(format, std::span(values).subspan(move.range.first, move.range.count), message);
    }
}

void round_own(Step const& step, WireFormat format, Values& values) {
    auto const own = part(values, step.wire_form);
    Bytes bytes(wire_bytes(format, own.size()));
    to_wire(format, own, bytes);
    from_wire(format, bytes, own);
}

void receive_all(
    Step const& step, std::uint32_t rank, WireFormat format, Values& values, Wire& wire
) {
    Values arrivals;
    for (auto const& move : step.receives) {
        auto const found = wire.find({move.peer, rank});
        ASSERT_NE(found, wire.end()) << "nothing from " << move.peer << " to " << rank;
        ASSERT_EQ(found->second.size(), wire_bytes(format, move.range.count));
        Values arrived(move.range.count);
        from_wire(format, found->second, arrived);
        if (step.arrival == Step::Arrival::sum) {
            ASSERT_EQ(move.range, step.receives[0].range);
            arrivals.insert(arrivals.end(), arrived.begin(), arrived.end());
        } else {
            std::ranges::copy(arrived, part(values, move.range).begin());
        }
        wire.erase(found);
    }
    if (step.arrival == Step::Arrival::sum && !step.receives.empty()) {
        sum_in_rank_order(step, rank, part(values, step.receives[0].range), arrivals);
    }
}

std::vector<Values>
all_reduce(Algorithm algorithm, std::vector<Values> ranks, WireFormat format = WireFormat::f32) {
    auto const size = static_cast<std::uint32_t>(ranks.size());
    std::vector<Schedule> schedules;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        schedules.push_back(all_reduce_schedule(algorithm, rank, size, ranks[rank].size()));
        EXPECT_EQ(schedules[rank].size(), schedules[0].size());
    }
    for (std::size_t step = 0; step < schedules[0].size(); ++step) {
        Wire wire;
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            send_all(schedules[rank][step], rank, format, ranks[rank], wire);
        }
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            round_own(schedules[rank][step], format, ranks[rank]);
            receive_all(schedules[rank][step], rank, format, ranks[rank], wire);
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

// NaNs are equal to themselves here.
bool same_bits(Values const& one, Values const& other) {
    return std::ranges::equal(one, other, [](float a, float b) {
        return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
    });
}

constexpr std::size_t counts[] = {0, 1, 2, 3, 7, 16, 17, 32, 33, 100, 1000, 2304};

using Row = std::tuple<Algorithm, WireFormat, std::uint32_t>;

class AllReduce : public testing::TestWithParam<Row> {
protected:
    Algorithm const algorithm = std::get<0>(GetParam());
    WireFormat const format = std::get<1>(GetParam());
    std::uint32_t const size = std::get<2>(GetParam());
};

TEST_P(AllReduce, gives_all_ranks_the_same_bits) {
    for (auto const count : counts) {
        auto const results = all_reduce(algorithm, inputs(size, count), format);
        for (auto const& result : results) {
            ASSERT_TRUE(same_bits(result, results[0])) << count << " values";
        }
    }
}

TEST_P(AllReduce, gives_all_ranks_the_same_bits_for_random_counts) {
    Random random(size);
    for (int round = 0; round < 20; ++round) {
        auto const count = static_cast<std::size_t>(random.below(700));
        auto const results = all_reduce(algorithm, inputs(size, count), format);
        for (auto const& result : results) {
            ASSERT_TRUE(same_bits(result, results[0])) << count << " values";
        }
    }
}

// Every value is on the wire once for each step that sums, and once more as a sum. A rounding is
// at most of the largest partial sum that is possible.
TEST_P(AllReduce, is_no_further_from_the_sum_than_its_roundings_allow) {
    double const share = format == WireFormat::q8    ? 1.0 / 252
                         : format == WireFormat::f16 ? 1.0 / 2048
                                                     : 0.0;
    for (auto const count : counts) {
        std::vector<Values> ranks = inputs(size, count);
        std::vector<double> exact(count);
        double largest = 0;
        for (std::uint32_t rank = 0; rank < size; ++rank) {
            for (std::size_t i = 0; i < count; ++i) {
                ranks[rank][i] = std::fmod(ranks[rank][i], 16.0f);
                exact[i] += double{ranks[rank][i]};
            }
        }
        largest = 16.0 * size;
        auto const result = all_reduce(algorithm, ranks, format)[0];
        // No algorithm puts a contribution on the wire in more than `size` partial sums.
        double const limit = largest * (share * size + 1e-6);
        for (std::size_t i = 0; i < count; ++i) {
            ASSERT_NEAR(result[i], exact[i], limit) << count << " values";
        }
    }
}

// A transport may write what arrives while it still sends.
TEST_P(AllReduce, never_replaces_a_range_that_is_sent_in_the_same_step) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        for (auto const& step : all_reduce_schedule(algorithm, rank, size, 1000)) {
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

// Else a value that is passed on would be rounded in another block, and become another one.
TEST_P(AllReduce, has_ranges_that_begin_at_whole_blocks) {
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        for (auto const& step : all_reduce_schedule(algorithm, rank, size, 1000)) {
            EXPECT_EQ(step.wire_form.first % wire_block_values, 0u);
            for (auto const& move : step.sends) {
                EXPECT_EQ(move.range.first % wire_block_values, 0u);
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Worlds,
    AllReduce,
    testing::Combine(
        testing::ValuesIn(algorithms),
        testing::Values(WireFormat::f32, WireFormat::f16, WireFormat::q8),
        testing::Range(1u, 17u)
    ),
    [](auto const& row) {
        std::string name = to_string(std::get<0>(row.param));
        std::ranges::replace(name, ' ', '_');
        return fmt::format(
            "{}_{}_of_{}", name, to_string(std::get<1>(row.param)), std::get<2>(row.param)
        );
    }
);

TEST(Schedule, direct_and_halves_sum_in_rank_order) {
    for (auto const algorithm : {Algorithm::direct, Algorithm::halves}) {
        for (std::uint32_t size = 1; size <= 16; ++size) {
            for (auto const count : counts) {
                auto const start = inputs(size, count);
                ASSERT_EQ(all_reduce(algorithm, start)[0], sum_by_rank(start)) << size;
            }
        }
    }
}

TEST(Schedule, sums_of_whole_numbers_are_exact) {
    for (auto const algorithm : algorithms) {
        for (std::uint32_t size = 1; size <= 16; ++size) {
            std::vector<Values> ranks(size, Values(50));
            for (std::uint32_t rank = 0; rank < size; ++rank) {
                for (std::size_t i = 0; i < 50; ++i) {
                    ranks[rank][i] = static_cast<float>(rank * 100 + i);
                }
            }
            EXPECT_EQ(all_reduce(algorithm, ranks)[0], sum_by_rank(ranks));
        }
    }
}

TEST(Schedule, the_parts_cover_all_values_once_and_differ_by_a_block_at_most) {
    for (std::uint32_t size = 1; size <= 16; ++size) {
        for (auto const count : counts) {
            std::size_t next = 0;
            std::size_t const blocks = (count + wire_block_values - 1) / wire_block_values;
            for (std::uint32_t rank = 0; rank < size; ++rank) {
                auto const part = part_of(count, size, rank);
                EXPECT_EQ(part.first, next);
                EXPECT_LE(part.count, (blocks / size + 1) * wire_block_values);
                next += part.count;
            }
            EXPECT_EQ(next, count);
        }
    }
}

TEST(Schedule, a_ring_speaks_to_its_neighbours_only) {
    for (auto const& step : all_reduce_schedule(Algorithm::ring, 2, 5, 1000)) {
        for (auto const& send : step.sends) {
            EXPECT_EQ(send.peer, 3u);
        }
        for (auto const& receive : step.receives) {
            EXPECT_EQ(receive.peer, 1u);
        }
    }
}

struct Sent {
    std::size_t steps = 0;
    std::size_t messages = 0;
    std::size_t values = 0;

    bool operator==(Sent const&) const = default;
};

Sent sent(Algorithm algorithm, std::uint32_t rank, std::uint32_t size, std::size_t count) {
    Sent sum;
    for (auto const& step : all_reduce_schedule(algorithm, rank, size, count)) {
        ++sum.steps;
        for (auto const& send : step.sends) {
            ++sum.messages;
            sum.values += send.range.count;
        }
    }
    return sum;
}

TEST(Schedule, the_algorithms_send_what_their_books_say) {
    EXPECT_EQ(sent(Algorithm::direct, 0, 8, 8192), (Sent{1, 7, 7 * 8192}));
    EXPECT_EQ(sent(Algorithm::halves, 0, 8, 8192), (Sent{2, 14, 2 * 7 * 1024}));
    EXPECT_EQ(sent(Algorithm::ring, 0, 8, 8192), (Sent{14, 14, 2 * 7 * 1024}));
    EXPECT_EQ(sent(Algorithm::recursive_doubling, 0, 8, 8192), (Sent{3, 3, 3 * 8192}));
    EXPECT_EQ(sent(Algorithm::recursive_halving, 0, 8, 8192), (Sent{6, 6, 2 * 7 * 1024}));
}

TEST(Schedule, ranks_beyond_a_power_of_two_give_and_get_once) {
    for (auto const algorithm : {Algorithm::recursive_doubling, Algorithm::recursive_halving}) {
        EXPECT_EQ(sent(algorithm, 5, 6, 1000).messages, 1u);
        EXPECT_EQ(sent(algorithm, 5, 6, 1000).values, 1000u);
    }
}

} // namespace
} // namespace exo::collective
