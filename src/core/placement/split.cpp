// SPDX-License-Identifier: Apache-2.0
#include "core/placement/split.hpp"

#include "base/assert.hpp"
#include "core/placement/memory.hpp"

#include <algorithm>
#include <numeric>

namespace exo::placement {
namespace {

std::uint64_t minus(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : 0;
}

// Each further layer goes to the rank that would have the most memory per layer then; the first one
// wins a tie. Ranks without room are passed over; while the total suffices, one has room.
std::vector<std::uint64_t> fill(
    std::uint32_t layers,
    std::vector<std::uint64_t> const& weights,
    std::vector<std::uint64_t> const& capacity
) {
    std::vector<std::uint64_t> share(capacity.size(), 1);
    for (std::size_t placed = share.size(); placed < layers; ++placed) {
        std::optional<std::size_t> best;
        for (std::size_t i = 0; i < share.size(); ++i) {
            bool const has_room = share[i] < capacity[i];
            // weights[i] / (share[i] + 1) > weights[best] / (share[best] + 1), without division.
            if (has_room &&
                (!best || weights[i] * (share[*best] + 1) > weights[*best] * (share[i] + 1))) {
                best = i;
            }
        }
        EXO_ASSERT(best.has_value());
        ++share[*best];
    }
    return share;
}

bool widths_fit(
    model::ModelCard const& card,
    Cache cache,
    std::span<std::uint64_t const> free_bytes,
    std::vector<std::uint64_t> const& shares
) {
    for (std::uint32_t i = 0; i < shares.size(); ++i) {
        if (tensor_rank_bytes(card, cache, shares, i) > free_bytes[i]) {
            return false;
        }
    }
    return true;
}

} // namespace

std::optional<std::vector<std::uint64_t>>
split_layers(model::ModelCard const& card, Cache cache, std::span<std::uint64_t const> free_bytes) {
    EXO_ASSERT(!free_bytes.empty());
    EXO_ASSERT(free_bytes.size() <= card.n_layers);
    auto const ranks = static_cast<std::uint32_t>(free_bytes.size());
    std::vector<std::uint64_t> weights;
    std::vector<std::uint64_t> capacity;
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < ranks; ++i) {
        auto const stage = stage_bytes(card, cache, i, ranks);
        auto const bytes = minus(free_bytes[i], stage.fixed);
        auto const layer = std::max<std::uint64_t>(stage.layer, 1);
        // Whole MiB, of which a machine has fewer than 2^44: products with a number of layers stay
        // below 2^64 (a card has fewer than 2^20 of them: placement.cpp).
        weights.push_back(bytes >> 20);
        capacity.push_back(std::min<std::uint64_t>(bytes / layer, card.n_layers));
        total += capacity.back();
    }
    if (total < card.n_layers || std::ranges::min(capacity) == 0) {
        return std::nullopt;
    }
    auto shares = fill(card.n_layers, weights, capacity);
    EXO_ASSERT(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}) == card.n_layers);
    return shares;
}

std::optional<std::vector<std::uint64_t>>
split_width(model::ModelCard const& card, Cache cache, std::span<std::uint64_t const> free_bytes) {
    EXO_ASSERT(!free_bytes.empty());
    std::vector<std::uint64_t> const equal(free_bytes.size(), 1);
    if (widths_fit(card, cache, free_bytes, equal)) {
        return equal;
    }
    std::uint64_t const fixed = saturating_add(overhead_bytes(card), vocabulary_bytes(card));
    std::vector<std::uint64_t> by_memory;
    for (std::uint64_t const free : free_bytes) {
        by_memory.push_back(std::max<std::uint64_t>(minus(free, fixed) >> 20, 1));
    }
    if (widths_fit(card, cache, free_bytes, by_memory)) {
        return by_memory;
    }
    return std::nullopt;
}

} // namespace exo::placement
