// SPDX-License-Identifier: Apache-2.0
//
// What every group must do, over each transport and algorithm, in worlds of several sizes.
#include "base/random.hpp"
#include "collective/group.hpp"
#include "collective/local_group.hpp"
#include "collective/tests/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <latch>

namespace exo::collective {
namespace {

constexpr std::size_t byte_counts[] = {0, 1, 1001, 8192, 4u << 20};
constexpr std::size_t value_counts[] = {0, 1, 3, 2048, 1u << 20};
constexpr std::size_t large = 1u << 20; // Bytes beyond this only in small worlds.

struct World {
    char const* name;
    std::uint32_t size;
    bool plain = false;
    Wish wish;
};

// Bytes that differ by seed and place; made block by block, for large ones are slow without.
Bytes pattern(std::uint32_t seed, std::size_t count) {
    Random random(seed);
    Bytes block(4099); // No power of two: no part of a message looks like another.
    for (auto& byte : block) {
        byte = static_cast<std::uint8_t>(random.next());
    }
    Bytes bytes;
    bytes.reserve(count + block.size());
    while (bytes.size() < count) {
        append(bytes, block);
    }
    bytes.resize(count);
    return bytes;
}

std::vector<float> values(std::uint32_t rank, std::size_t count) {
    Random random(rank + 1);
    std::vector<float> block(1009);
    for (auto& value : block) {
        value = static_cast<float>(random.below(1'000'003)) / 7.0f - 70'000.0f;
    }
    std::vector<float> result;
    while (result.size() < count) {
        result.insert(result.end(), block.begin(), block.end());
    }
    result.resize(count);
    return result;
}

class GroupSuite : public testing::TestWithParam<World> {
protected:
    void run(std::function<void(Group&)> const& program) {
        if (GetParam().size == 1) {
            LocalGroup group;
            program(group);
            return;
        }
        TcpOptions options;
        options.plain_on_one_machine = GetParam().plain;
        options.wish = GetParam().wish;
        run_ranks(GetParam().size, options, program);
    }

    [[nodiscard]] bool too_large(std::size_t bytes) const {
        return GetParam().size > 5 && bytes > large;
    }
};

TEST_P(GroupSuite, a_message_goes_round_all_ranks_unchanged) {
    if (GetParam().size == 1) {
        GTEST_SKIP() << "nobody to send to";
    }
    run([&](Group& group) {
        std::uint32_t const next = (group.rank() + 1) % group.size();
        std::uint32_t const previous = (group.rank() + group.size() - 1) % group.size();
        for (auto const count : byte_counts) {
            if (too_large(count)) {
                continue;
            }
            auto const bytes = pattern(group.rank(), count);
            Bytes received(count);
            ASSERT_TRUE(group.send(next, bytes));
            ASSERT_TRUE(group.receive(previous, received));
            ASSERT_EQ(received, pattern(previous, count)) << count << " bytes";
        }
    });
}

TEST_P(GroupSuite, messages_keep_their_order_and_may_have_unknown_sizes) {
    if (GetParam().size == 1) {
        GTEST_SKIP() << "nobody to send to";
    }
    run([&](Group& group) {
        for (std::uint32_t i = 0; i < 100; ++i) {
            auto const message = pattern(i, i * 37);
            if (group.rank() == 0) {
                for (std::uint32_t peer = 1; peer < group.size(); ++peer) {
                    ASSERT_TRUE(group.send(peer, message));
                }
            } else {
                auto const received = group.receive_message(0);
                ASSERT_TRUE(received);
                ASSERT_EQ(*received, message);
            }
        }
    });
}

TEST_P(GroupSuite, all_get_what_the_root_broadcasts) {
    run([&](Group& group) {
        for (std::uint32_t root = 0; root < std::min(group.size(), 3u); ++root) {
            for (auto const count : byte_counts) {
                if (too_large(count)) {
                    continue;
                }
                Bytes bytes = pattern(group.rank() == root ? 100 : 200, count);
                ASSERT_TRUE(group.broadcast(root, bytes));
                ASSERT_EQ(bytes, pattern(100, count)) << count << " bytes";
            }
        }
    });
}

// What a value of a sum may be off by: no algorithm rounds more than once for each rank and once
// for the sum, each time by a share of the largest sum there is.
double error_max(std::uint32_t size, WireFormat format) {
    double const largest = 75'000.0 * size;
    double const share = format == WireFormat::q8    ? 1.0 / 252
                         : format == WireFormat::f16 ? 1.0 / 2048
                                                     : 1e-7;
    return largest * share * (size + 1);
}

TEST_P(GroupSuite, all_reduce_sums_with_the_same_bits_everywhere) {
    run([&](Group& group) {
        for (auto const count : value_counts) {
            if (too_large(count * sizeof(float))) {
                continue;
            }
            auto sum = values(group.rank(), count);
            ASSERT_TRUE(group.all_reduce(sum));
            auto expected = values(0, count);
            for (std::uint32_t rank = 1; rank < group.size(); ++rank) {
                auto const theirs = values(rank, count);
                for (std::size_t i = 0; i < count; ++i) {
                    expected[i] += theirs[i];
                }
            }
            auto const [algorithm, format] = GetParam().wish;
            if (algorithm == Algorithm::direct && format == WireFormat::f32) {
                ASSERT_EQ(sum, expected) << count << " values";
            }
            double const limit = error_max(group.size(), format);
            for (std::size_t i = 0; i < count; ++i) {
                ASSERT_NEAR(sum[i], expected[i], limit) << count << " values";
            }
            // The same bits as rank 0, whatever the order.
            std::vector<float> first = sum;
            auto* const bytes = reinterpret_cast<std::uint8_t*>(first.data());
            ASSERT_TRUE(group.broadcast(0, {bytes, count * sizeof(float)}));
            ASSERT_EQ(sum, first) << count << " values";
        }
    });
}

TEST_P(GroupSuite, all_gather_holds_the_parts_by_rank) {
    run([&](Group& group) {
        for (auto const count : byte_counts) {
            if (too_large(count)) {
                continue;
            }
            Bytes all(count * group.size());
            ASSERT_TRUE(group.all_gather(pattern(group.rank(), count), all));
            for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
                auto const part = std::span(all).subspan(rank * count, count);
                ASSERT_TRUE(std::ranges::equal(part, pattern(rank, count))) << count << " bytes";
            }
        }
    });
}

TEST_P(GroupSuite, nobody_leaves_a_barrier_before_all_have_entered) {
    std::atomic<std::uint32_t> entered = 0;
    run([&](Group& group) {
        for (std::uint32_t round = 1; round <= 20; ++round) {
            ++entered;
            ASSERT_TRUE(group.barrier());
            ASSERT_GE(entered, round * group.size());
        }
    });
}

TEST_P(GroupSuite, a_long_program_of_mixed_operations_stays_in_step) {
    run([&](Group& group) {
        Random random(42); // The same on all ranks.
        for (int i = 0; i < 200; ++i) {
            auto const count = static_cast<std::size_t>(random.below(5000));
            auto const root = static_cast<std::uint32_t>(random.below(group.size()));
            switch (random.below(4)) {
            case 0: {
                std::vector<float> ones(count, 1.0f);
                ASSERT_TRUE(group.all_reduce(ones));
                std::vector<float> const expected(count, static_cast<float>(group.size()));
                ASSERT_EQ(ones, expected);
                break;
            }
            case 1: {
                Bytes bytes = pattern(group.rank() == root ? 7 : 8, count);
                ASSERT_TRUE(group.broadcast(root, bytes));
                ASSERT_EQ(bytes, pattern(7, count));
                break;
            }
            case 2: {
                Bytes all(count * group.size());
                ASSERT_TRUE(group.all_gather(pattern(group.rank(), count), all));
                break;
            }
            default:
                ASSERT_TRUE(group.barrier());
            }
        }
    });
}

TEST_P(GroupSuite, an_error_from_outside_is_final) {
    std::latch formed(GetParam().size);
    run([&](Group& group) {
        formed.arrive_and_wait(); // The group of another rank would not form any more.
        group.fail(Error(Errc::cancelled, "the load was cancelled"));
        group.fail(Error(Errc::internal, "a later error"));
        auto const result = group.barrier();
        ASSERT_FALSE(result);
        // In a group of several, another rank's failure may have come first.
        EXPECT_NE(result.error().text().find("the load was cancelled"), std::string::npos);
        EXPECT_TRUE(group.health() == result);
    });
}

INSTANTIATE_TEST_SUITE_P(
    Worlds,
    GroupSuite,
    testing::Values(
        World{"local_1", 1},
        World{"tcp_2", 2},
        World{"tcp_3", 3},
        World{"tcp_4", 4},
        World{"tcp_5", 5},
        World{"tcp_16", 16},
        World{"tcp_plain_2", 2, true},
        World{"tcp_plain_5", 5, true}
    ),
    [](auto const& row) { return row.param.name; }
);

// ---- all ways to sum; the schedules themselves are tested with more (schedules/tests)

using Way = std::tuple<Algorithm, WireFormat, std::uint32_t>;

class WaysToSum : public testing::TestWithParam<Way> {};

TEST_P(WaysToSum, sums_of_random_sizes_have_the_same_bits_everywhere) {
    auto const [algorithm, format, size] = GetParam();
    TcpOptions options;
    options.plain_on_one_machine = true;
    options.wish = {.algorithm = algorithm, .format = format};
    double const limit = error_max(size, format);
    run_ranks(size, options, [&](Group& group) {
        Random random(17); // The same on all ranks.
        for (int i = 0; i < 12; ++i) {
            auto const count = static_cast<std::size_t>(random.below(i % 4 == 0 ? 40'000 : 300));
            auto sum = values(group.rank(), count);
            ASSERT_TRUE(group.all_reduce(sum));
            std::vector<double> exact(count);
            for (std::uint32_t rank = 0; rank < size; ++rank) {
                auto const theirs = values(rank, count);
                for (std::size_t k = 0; k < count; ++k) {
                    exact[k] += double{theirs[k]};
                }
            }
            for (std::size_t k = 0; k < count; ++k) {
                ASSERT_NEAR(sum[k], exact[k], limit) << count << " values";
            }
            std::vector<float> first = sum;
            auto* const bytes = reinterpret_cast<std::uint8_t*>(first.data());
            ASSERT_TRUE(group.broadcast(0, {bytes, count * sizeof(float)}));
            ASSERT_EQ(sum, first) << count << " values";
        }
    });
}

INSTANTIATE_TEST_SUITE_P(
    All,
    WaysToSum,
    testing::Combine(
        testing::ValuesIn(algorithms),
        testing::Values(WireFormat::f32, WireFormat::f16, WireFormat::q8),
        testing::Range(2u, 9u)
    ),
    [](auto const& row) {
        auto name = fmt::format(
            "{}_{}_of_{}",
            to_string(std::get<0>(row.param)),
            to_string(std::get<1>(row.param)),
            std::get<2>(row.param)
        );
        std::ranges::replace(name, ' ', '_');
        return name;
    }
);

// ---- links

// An address that a rank dials and does not have itself: to the group, another machine.
Ports ports_of_two_machines(std::uint32_t size) {
    Ports ports(size);
    for (auto& endpoint : ports.endpoints) {
        endpoint.addresses = {"127.0.0.2"};
    }
    return ports;
}

// What rank 0 says of its group.
std::string description(Ports ports, TcpOptions const& first, TcpOptions const& second) {
    std::thread other([&] {
        auto const group = TcpGroup::connect(
            std::move(ports.listeners[1]), test_key, test_member(1), ports.endpoints, second
        );
        if (group) {
            (void)(*group)->barrier();
        }
    });
    auto const group = TcpGroup::connect(
        std::move(ports.listeners[0]), test_key, test_member(0), ports.endpoints, first
    );
    if (group) {
        (void)(*group)->barrier();
    }
    other.join();
    return group ? (*group)->describe() : group.error().text();
}

bool says(std::string const& text, std::string_view words) {
    return text.find(words) != std::string::npos;
}

TEST(TcpLinks, between_machines_are_encrypted_whatever_holds_within_one) {
    TcpOptions options;
    options.plain_on_one_machine = true;
    EXPECT_TRUE(says(description(Ports(2), options, options), "plain"));
    EXPECT_TRUE(says(description(ports_of_two_machines(2), options, options), "encrypted"));
}

TEST(TcpLinks, are_plain_where_both_ends_call_their_network_private) {
    TcpOptions with;
    with.private_networks = {"10.0.0.0/8", "127.0.0.0/8"};
    TcpOptions const without;
    EXPECT_TRUE(says(description(ports_of_two_machines(2), with, with), "plain"));
    EXPECT_TRUE(says(description(ports_of_two_machines(2), with, without), "encrypted"));
    EXPECT_TRUE(says(description(ports_of_two_machines(2), without, with), "encrypted"));
}

TEST(TcpLinks, between_machines_are_measured_and_within_one_they_are_not) {
    auto const within = description(Ports(2), {}, {});
    EXPECT_TRUE(says(within, "within this machine")) << within;
    auto const between = description(ports_of_two_machines(2), {}, {});
    EXPECT_FALSE(says(between, "within this machine")) << between;
    EXPECT_TRUE(says(between, "slowest link: ")) << between;
}

TEST(TcpLinks, that_were_measured_carry_sums_like_any_other) {
    auto ports = ports_of_two_machines(5);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < 5; ++rank) {
        threads.emplace_back([&, rank] {
            auto group = TcpGroup::connect(
                std::move(ports.listeners[rank]), test_key, test_member(rank), ports.endpoints, {}
            );
            ASSERT_TRUE(group) << group.error().text();
            std::vector<float> ones(10'000, 1.0f);
            ASSERT_TRUE((*group)->all_reduce(ones));
            EXPECT_NEAR(ones[9999], 5.0f, 0.2f); // In whatever format they went.
            ASSERT_TRUE((*group)->barrier());
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
}

TEST(TcpLinks, ranks_that_were_asked_for_different_wire_types_do_not_go_on) {
    TcpOptions other;
    other.wish.format = WireFormat::q8;
    auto const text = description(Ports(2), {}, other);
    EXPECT_TRUE(says(text, "different wire types")) << text;
}

TEST(TcpLinks, the_wire_type_that_was_asked_for_is_used) {
    TcpOptions options;
    options.wish.format = WireFormat::q8;
    EXPECT_TRUE(says(description(Ports(2), options, options), "as q8"));
}

TEST(TcpLinks, a_private_network_that_is_none_is_refused) {
    TcpOptions options;
    options.private_networks = {"eth0"};
    Ports ports(2);
    auto const result = TcpGroup::connect(
        std::move(ports.listeners[0]), test_key, test_member(0), ports.endpoints, options
    );
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::invalid_argument);
}

// ---- windows

TEST(TcpGroup, a_send_does_not_wait_for_the_others_compute) {
    std::latch sent(1);
    run_ranks(2, {}, [&](Group& group) {
        Bytes bytes = pattern(1, 4u << 20);
        if (group.rank() == 0) {
            ASSERT_TRUE(group.send(1, bytes));
            sent.count_down();
        } else {
            sent.wait(); // Computes until then.
            Bytes received(bytes.size());
            ASSERT_TRUE(group.receive(0, received));
            ASSERT_EQ(received, bytes);
        }
    });
}

// The I/O thread may complete a message at any moment, also just before its caller goes to sleep.
TEST(TcpGroup, no_message_is_slept_through) {
    run_ranks(2, {.plain_on_one_machine = true, .spin = 20us}, [&](Group& group) {
        std::uint32_t const other = 1 - group.rank();
        Bytes bytes(128u << 10);
        for (int i = 0; i < 3000; ++i) {
            if (group.rank() == 0) {
                ASSERT_TRUE(group.send(other, bytes));
            }
            ASSERT_TRUE(group.receive(other, bytes));
            if (group.rank() == 1) {
                ASSERT_TRUE(group.send(other, bytes));
            }
        }
    });
}

TEST(TcpGroup, the_window_of_a_slow_receiver_is_bounded_and_nothing_is_lost) {
    constexpr std::uint32_t messages = 40; // 80 MiB
    std::atomic<std::uint32_t> sent = 0;
    run_ranks(2, {}, [&](Group& group) {
        Bytes bytes(2u << 20);
        for (std::uint32_t i = 0; i < messages; ++i) {
            bytes[0] = static_cast<std::uint8_t>(i);
            if (group.rank() == 0) {
                ASSERT_TRUE(group.send(1, bytes));
                ++sent;
                continue;
            }
            if (i == 0) {
                // Until the sender has not gone on for long: its window is full.
                for (std::uint32_t before = 99; before != sent;) {
                    before = sent;
                    std::this_thread::sleep_for(200ms);
                }
                EXPECT_LE(sent, 20u) << "the window is bounded";
            }
            Bytes received(bytes.size());
            ASSERT_TRUE(group.receive(0, received));
            ASSERT_EQ(received[0], i);
        }
    });
}

TEST(TcpGroup, operations_larger_than_all_windows_do_not_block_each_other) {
    run_ranks(3, {.plain_on_one_machine = true}, [&](Group& group) {
        Bytes const part(24u << 20, static_cast<std::uint8_t>(group.rank()));
        Bytes all(part.size() * group.size());
        ASSERT_TRUE(group.all_gather(part, all));
        EXPECT_EQ(all.back(), 2);
    });
}

TEST(TcpGroup, a_message_larger_than_the_inbox_arrives_when_it_is_received_late) {
    std::latch sending(1);
    run_ranks(2, {.plain_on_one_machine = true}, [&](Group& group) {
        Bytes const bytes = pattern(3, 30u << 20);
        if (group.rank() == 0) {
            sending.count_down();
            ASSERT_TRUE(group.send(1, bytes));
        } else {
            sending.wait();
            auto const received = group.receive_message(0);
            ASSERT_TRUE(received);
            ASSERT_EQ(*received, bytes);
        }
    });
}

} // namespace
} // namespace exo::collective
