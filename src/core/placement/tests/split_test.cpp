// SPDX-License-Identifier: Apache-2.0
#include "core/placement/memory.hpp"
#include "core/placement/split.hpp"
#include "examples.hpp"

#include <gtest/gtest.h>

namespace exo::placement {
namespace {

using examples::card;
using examples::gib;
using examples::mib;

constexpr std::uint64_t greatest = std::numeric_limits<std::uint64_t>::max();

std::vector<std::uint64_t> layers(std::vector<std::uint64_t> const& free_bytes) {
    return split_layers(card(), {.tokens = 2048}, free_bytes)
        .value_or(std::vector<std::uint64_t>{});
}

TEST(MultiplyDivide, rounds_up_and_saturates) {
    EXPECT_EQ(multiply_divide(10, 1, 3), 4);
    EXPECT_EQ(multiply_divide(9, 1, 3), 3);
    EXPECT_EQ(multiply_divide(greatest, greatest, greatest), greatest);
    EXPECT_EQ(multiply_divide(greatest, 2, 1), greatest);
    EXPECT_EQ(multiply_divide(0, greatest, 7), 0);
    EXPECT_EQ(saturating_add(greatest, 1), greatest);
}

TEST(SplitLayers, equal_nodes_share_equally) {
    EXPECT_EQ(layers({8 * gib, 8 * gib}), (std::vector<std::uint64_t>{14, 14}));
    EXPECT_EQ(layers({8 * gib, 8 * gib, 8 * gib}).size(), 3);
}

TEST(SplitLayers, layers_are_in_proportion_to_what_overhead_leaves) {
    std::uint64_t const fixed = overhead_bytes(card()) + vocabulary_bytes(card());
    EXPECT_EQ(layers({fixed + 6 * gib, fixed + 2 * gib}), (std::vector<std::uint64_t>{21, 7}));
}

TEST(SplitLayers, every_rank_has_a_layer_however_small_it_is) {
    std::uint64_t const fixed = overhead_bytes(card()) + vocabulary_bytes(card());
    EXPECT_EQ(layers({64 * gib, fixed + 120 * mib}), (std::vector<std::uint64_t>{27, 1}));
}

TEST(SplitLayers, a_full_node_passes_its_layers_on) {
    // By proportion the small one would get 2 of 28 layers; it has room for one.
    std::uint64_t const layer = layer_bytes(card(), {.tokens = 2048});
    std::uint64_t const fixed = overhead_bytes(card()) + vocabulary_bytes(card());
    std::vector<std::uint64_t> const free{fixed + 27 * layer, fixed + 2 * layer - 1};
    EXPECT_EQ(layers(free), (std::vector<std::uint64_t>{27, 1}));
}

TEST(SplitLayers, what_does_not_fit_is_not_split) {
    EXPECT_TRUE(layers({1 * gib, 1 * gib}).empty());
    EXPECT_TRUE(layers({64 * gib, 10 * mib}).empty()); // No room for even one layer.
    EXPECT_TRUE(layers({0}).empty());
}

TEST(SplitLayers, an_exact_fit_is_a_fit) {
    std::uint64_t const exact = overhead_bytes(card()) + 2 * vocabulary_bytes(card()) +
                                28 * layer_bytes(card(), {.tokens = 2048});
    EXPECT_EQ(layers({exact}), std::vector<std::uint64_t>{28});
    EXPECT_TRUE(layers({exact - 1}).empty());
}

TEST(SplitLayers, huge_memories_do_not_overflow) {
    EXPECT_EQ(layers({greatest, greatest}), (std::vector<std::uint64_t>{14, 14}));
}

TEST(SplitWidth, is_equal_when_that_fits) {
    std::vector<std::uint64_t> const free{64 * gib, 8 * gib};
    EXPECT_EQ(split_width(card(), {.tokens = 2048}, free), (std::vector<std::uint64_t>{1, 1}));
}

TEST(SplitWidth, rounds_heads_up) {
    auto three_heads = card();
    three_heads.num_key_value_heads = 3;
    // Half of three heads is two on one rank: both are counted with two.
    Cache const cache{.tokens = 2048};
    std::uint64_t const kv = kv_cache_bytes(three_heads, cache);
    std::vector<std::uint64_t> const halves{1, 1};
    EXPECT_EQ(
        tensor_rank_bytes(three_heads, cache, halves, 0) -
            tensor_rank_bytes(three_heads, {}, halves, 0),
        multiply_divide(kv, 2, 3)
    );
}

TEST(SplitWidth, what_does_not_fit_is_not_split) {
    std::vector<std::uint64_t> const free{1 * gib, 600 * mib};
    EXPECT_FALSE(split_width(card(), {.tokens = 2048}, free));
}

} // namespace
} // namespace exo::placement
