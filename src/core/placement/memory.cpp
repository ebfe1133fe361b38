// SPDX-License-Identifier: Apache-2.0
#include "core/placement/memory.hpp"

#include "base/assert.hpp"
#include "core/placement/cuts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace exo::placement {
namespace {

using namespace model;

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t greatest = std::numeric_limits<std::uint64_t>::max();

// The process with its libraries, thread stacks, socket buffers and the tokenizer; measured at
// 80-150 MiB on small models.
constexpr std::uint64_t process_bytes = std::uint64_t{192} << 20;
// Tokens that one step computes at most, and the floats that each takes in the graph's buffers:
// logits over the vocabulary, and some 16 rows as wide as the model.
constexpr std::uint64_t step_tokens = 512;
constexpr std::uint64_t rows_per_token = 16;

std::uint64_t graph_bytes(ModelCard const& card) {
    std::uint64_t const floats = card.vocabulary_size + rows_per_token * card.hidden_size;
    return step_tokens * floats * sizeof(std::uint32_t);
}

std::uint64_t cache_bytes(std::uint64_t f16_bytes_per_token, Cache cache) {
    std::uint64_t const f16 = multiply_divide(f16_bytes_per_token, cache.tokens, 1);
    // A block of q8_0: 32 values of a byte each and their scale, where f16 takes 64 bytes.
    return cache.type == CacheType::q8_0 ? multiply_divide(f16, 34, 64) : f16;
}

} // namespace

std::uint64_t multiply_divide(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    EXO_ASSERT(c > 0);
    Wide const result = (Wide{a} * b + c - 1) / c;
    return result > greatest ? greatest : static_cast<std::uint64_t>(result);
}

std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) {
    return a > greatest - b ? greatest : a + b;
}

std::uint64_t kv_cache_bytes(ModelCard const& card, Cache cache) {
    return cache_bytes(card.kv_bytes_per_token, cache);
}

std::uint64_t overhead_bytes(ModelCard const& card) {
    return process_bytes + graph_bytes(card);
}

std::uint64_t vocabulary_bytes(ModelCard const& card) {
    std::uint64_t const weights = std::uint64_t{card.vocabulary_size} * card.hidden_size;
    return std::min(multiply_divide(weights, 2, 1), card.storage_size.in_bytes / 4);
}

std::uint64_t layer_bytes(ModelCard const& card, Cache cache) {
    EXO_ASSERT(card.n_layers > 0);
    return saturating_add(
        multiply_divide(card.storage_size.in_bytes, 1, card.n_layers),
        multiply_divide(kv_cache_bytes(card, cache), 1, card.n_layers)
    );
}

std::uint64_t StageBytes::with(std::uint64_t layers) const {
    return saturating_add(fixed, multiply_divide(layer, layers, 1));
}

StageBytes
stage_bytes(ModelCard const& card, Cache cache, std::uint32_t rank, std::uint32_t ranks) {
    EXO_ASSERT(rank < ranks);
    EXO_ASSERT(ranks <= card.n_layers);
    auto const* const cut = cut_of(card, Sharding::pipeline, ranks);
    if (cut == nullptr) {
        bool const holds_first = rank == (ranks == 1 ? 0 : 1);
        std::uint64_t const ends =
            (holds_first ? vocabulary_bytes(card) : 0) + (rank == 0 ? vocabulary_bytes(card) : 0);
        return {
            .fixed = saturating_add(overhead_bytes(card), ends), .layer = layer_bytes(card, cache)
        };
    }
    auto const& need = cut->needs[rank];
    // As the probe shares them out (engine/load).
    std::uint64_t const layers = card.n_layers / ranks + (rank < card.n_layers % ranks ? 1 : 0);
    std::uint64_t const in_layers =
        std::min(need.weight_bytes, multiply_divide(cut->layer_bytes, layers, 1));
    std::uint64_t const kv = cache_bytes(need.kv_bytes_per_token, cache);
    return {
        .fixed = saturating_add(
            need.weight_bytes - in_layers, saturating_add(process_bytes, need.compute_bytes)
        ),
        .layer = saturating_add(cut->layer_bytes, multiply_divide(kv, 1, layers))
    };
}

namespace {

// Of an even cut: what every rank holds in full (the token embedding, norms), so far as the figures
// of one rank alone tell. 0 makes both a wide and a narrow rank look larger than they are.
std::uint64_t replicated_bytes(ModelCard const& card, ModelCut const& cut) {
    auto const* const whole = cut_of(card, Sharding::pipeline, 1);
    if (whole == nullptr || cut.ranks < 2) {
        return 0;
    }
    std::uint64_t sum = 0;
    std::uint64_t least = greatest;
    for (auto const& need : cut.needs) {
        sum = saturating_add(sum, need.weight_bytes);
        least = std::min(least, need.weight_bytes);
    }
    std::uint64_t const once = whole->needs[0].weight_bytes;
    return std::min(least, sum > once ? (sum - once) / (cut.ranks - 1) : 0);
}

// Of a rank with `share` of `total`, from the figures of an even cut.
std::uint64_t tried_tensor_bytes(
    ModelCard const& card,
    ModelCut const& cut,
    Cache cache,
    std::uint64_t share,
    std::uint64_t total,
    std::uint32_t rank
) {
    auto const& need = cut.needs[rank];
    std::uint64_t const width = multiply_divide(share, cut.ranks, 1); // `total` when it is even.
    std::uint64_t const everywhere = replicated_bytes(card, cut);
    std::uint64_t const even = need.weight_bytes - everywhere;
    std::uint64_t slice = multiply_divide(multiply_divide(even, cut.ranks, 1), share, total);
    if (everywhere == 0) { // A narrow rank may hold as much as an even one.
        slice = std::max(slice, even);
    }
    std::uint64_t kv = cache_bytes(need.kv_bytes_per_token, cache);
    if (width != total) { // Whole heads: one more than its share of them, perhaps.
        std::uint64_t const heads = std::max(card.num_key_value_heads, 1u);
        std::uint64_t const own_heads = std::min(heads, multiply_divide(heads, share, total));
        kv = std::max(kv, multiply_divide(kv_cache_bytes(card, cache), own_heads, heads));
    }
    std::uint64_t const weights = saturating_add(everywhere, slice);
    return saturating_add(
        saturating_add(weights, kv), saturating_add(process_bytes, need.compute_bytes)
    );
}

} // namespace

std::uint64_t tensor_rank_bytes(
    ModelCard const& card, Cache cache, std::span<std::uint64_t const> shares, std::uint32_t rank
) {
    EXO_ASSERT(rank < shares.size());
    std::uint64_t const share = shares[rank];
    std::uint64_t const total =
        std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}, [](auto a, auto b) {
            return saturating_add(a, b);
        });
    EXO_ASSERT(total > 0);
    auto const ranks = static_cast<std::uint32_t>(shares.size());
    if (auto const* const cut = cut_of(card, Sharding::tensor, ranks)) {
        return tried_tensor_bytes(card, *cut, cache, share, total, rank);
    }
    std::uint64_t const heads = std::max(card.num_key_value_heads, 1u);
    std::uint64_t const own_heads = std::min(heads, multiply_divide(heads, share, total));
    std::uint64_t const weights = multiply_divide(card.storage_size.in_bytes, share, total);
    std::uint64_t const kv = multiply_divide(kv_cache_bytes(card, cache), own_heads, heads);
    // Every tensor rank keeps the whole token embedding (specs/engine.md).
    std::uint64_t const fixed = saturating_add(overhead_bytes(card), vocabulary_bytes(card));
    return saturating_add(saturating_add(weights, kv), fixed);
}

std::uint64_t draft_bytes(ModelCard const& draft, std::uint32_t context_length) {
    std::uint64_t const kv = kv_cache_bytes(draft, {.tokens = context_length});
    return saturating_add(saturating_add(draft.storage_size.in_bytes, kv), graph_bytes(draft));
}

} // namespace exo::placement
