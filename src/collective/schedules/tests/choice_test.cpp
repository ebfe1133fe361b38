// SPDX-License-Identifier: Apache-2.0
#include "collective/schedules/choice.hpp"

#include <gtest/gtest.h>

namespace exo::collective {
namespace {

constexpr std::uint64_t mbit = 1'000'000 / 8;

Links all(std::uint32_t size, std::uint64_t latency_us, std::uint64_t megabits) {
    return Links(size, {.latency_ns = latency_us * 1000, .bytes_per_second = megabits * mbit});
}

constexpr std::size_t decode = 576;         // Values: the width of a small model.
constexpr std::size_t wide_decode = 8192;   // Of a large one.
constexpr std::size_t prefill = 512 * 4096; // A micro-batch.

TEST(Choice, two_ranks_exchange_directly_whatever_the_size) {
    for (auto const count : {std::size_t{1}, decode, wide_decode, prefill}) {
        EXPECT_EQ(choose(count, all(2, 50, 10'000), {}).algorithm, Algorithm::direct);
    }
}

TEST(Choice, few_bytes_go_in_few_steps_and_many_in_few_bytes) {
    auto const links = all(4, 50, 10'000);
    EXPECT_EQ(choose(decode, links, {}).algorithm, Algorithm::direct);
    EXPECT_EQ(choose(prefill, links, {}).algorithm, Algorithm::halves);
}

TEST(Choice, among_many_ranks_a_few_messages_of_pairs_beat_one_to_each) {
    // On links of little latency, what a message costs the core counts.
    auto const links = Links(16, link_within_machine);
    auto const choice = choose(wide_decode, links, {});
    EXPECT_NE(choice.algorithm, Algorithm::direct);
    EXPECT_LT(
        choice.expected_ns, expected_ns(Algorithm::direct, WireFormat::f32, wide_decode, links)
    );
}

TEST(Choice, a_ring_of_cables_is_used_as_a_ring) {
    auto links = all(6, 300, 100); // Wi-Fi between those that have no cable.
    for (std::uint32_t rank = 0; rank < 6; ++rank) {
        links.set(rank, (rank + 1) % 6, {.latency_ns = 20'000, .bytes_per_second = 20'000 * mbit});
    }
    EXPECT_EQ(choose(prefill, links, {}).algorithm, Algorithm::ring);
}

TEST(Choice, fast_links_keep_every_bit) {
    for (auto const count : {decode, wide_decode, prefill}) {
        EXPECT_EQ(choose(count, all(2, 30, 10'000), {}).format, WireFormat::f32);
        EXPECT_EQ(choose(count, Links(4, link_within_machine), {}).format, WireFormat::f32);
    }
}

TEST(Choice, a_slow_link_carries_f16_when_that_saves_time) {
    auto const gigabit = all(2, 60, 1000);
    EXPECT_EQ(choose(prefill, gigabit, {}).format, WireFormat::f16);
    EXPECT_EQ(choose(wide_decode, gigabit, {}).format, WireFormat::f16);
    EXPECT_EQ(choose(decode, gigabit, {}).format, WireFormat::f32) << "its time is latency";
    EXPECT_EQ(choose(decode, all(2, 60, 100), {}).format, WireFormat::f16);
}

TEST(Choice, only_a_very_slow_link_carries_q8_unasked) {
    EXPECT_EQ(choose(prefill, all(2, 60, 300), {}).format, WireFormat::f16);
    EXPECT_EQ(choose(prefill, all(2, 2000, 54), {}).format, WireFormat::q8);
    EXPECT_EQ(choose(decode, all(2, 2000, 54), {}).format, WireFormat::f32);
}

TEST(Choice, between_two_ranks_a_larger_sum_is_never_more_precise) {
    for (std::uint64_t const megabits : {10u, 50u, 300u, 1000u, 2500u}) {
        auto format = WireFormat::f32;
        for (std::size_t count = 32; count <= prefill; count *= 2) {
            auto const next = choose(count, all(2, 60, megabits), {}).format;
            EXPECT_GE(next, format) << count << " values, " << megabits << " Mbit/s";
            format = next;
        }
    }
}

TEST(Choice, a_machine_with_two_ranks_does_not_hide_the_network_between_others) {
    auto links = all(3, 60, 1000);
    links.set(0, 1, link_within_machine);
    EXPECT_EQ(choose(prefill, links, {}).format, WireFormat::f16);
}

TEST(Choice, a_wish_is_fulfilled_on_any_link_and_size) {
    for (auto const count : {std::size_t{0}, decode, prefill}) {
        Wish const wish{.algorithm = Algorithm::ring, .format = WireFormat::q8};
        auto const choice = choose(count, Links(3, link_within_machine), wish);
        EXPECT_EQ(choice.algorithm, Algorithm::ring);
        EXPECT_EQ(choice.format, WireFormat::q8);
    }
}

TEST(Choice, what_is_expected_of_a_gigabit_is_near_its_arithmetic) {
    // 8 MiB in f32 at 125 MB/s.
    auto const time = expected_ns(Algorithm::direct, WireFormat::f32, prefill, all(2, 60, 1000));
    EXPECT_NEAR(static_cast<double>(time), 8388608.0 / 125e6 * 1e9, 1e6);
}

TEST(Choice, two_measurements_of_one_link_are_told_as_one) {
    LinkSpeed const one{.latency_ns = 61'000, .bytes_per_second = 117'000'000};
    LinkSpeed const other{.latency_ns = 70'000, .bytes_per_second = 109'000'000};
    EXPECT_EQ(rounded(one), rounded(other));
    EXPECT_EQ(rounded({}).bytes_per_second, 1u); // Nothing is divided by zero.
    EXPECT_EQ(describe(one), "61 us, 117 MB/s");
}

} // namespace
} // namespace exo::collective
