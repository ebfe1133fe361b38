// SPDX-License-Identifier: Apache-2.0
#include "core/placement/memory.hpp"

#include "base/assert.hpp"

#include <algorithm>
#include <limits>

namespace exo::placement {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t greatest = std::numeric_limits<std::uint64_t>::max();

// The process with its libraries, thread stacks, socket buffers and the tokenizer; measured at
// 80-150 MiB on small models.
constexpr std::uint64_t process_bytes = std::uint64_t{192} << 20;
// Tokens that one step computes at most, and the floats that each takes in the graph's buffers:
// logits over the vocabulary, and some 16 rows as wide as the model.
constexpr std::uint64_t step_tokens = 512;
constexpr std::uint64_t rows_per_token = 16;

std::uint64_t graph_bytes(model::ModelCard const& card) {
    std::uint64_t const floats = card.vocabulary_size + rows_per_token * card.hidden_size;
    return step_tokens * floats * sizeof(std::uint32_t);
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

std::uint64_t kv_cache_bytes(model::ModelCard const& card, Cache cache) {
    std::uint64_t const f16 = multiply_divide(card.kv_bytes_per_token, cache.tokens, 1);
    // A block of q8_0: 32 values of a byte each and their scale, where f16 takes 64 bytes.
    return cache.type == model::CacheType::q8_0 ? multiply_divide(f16, 34, 64) : f16;
}

std::uint64_t overhead_bytes(model::ModelCard const& card) {
    return process_bytes + graph_bytes(card);
}

std::uint64_t vocabulary_bytes(model::ModelCard const& card) {
    std::uint64_t const weights = std::uint64_t{card.vocabulary_size} * card.hidden_size;
    return std::min(multiply_divide(weights, 2, 1), card.storage_size.in_bytes / 4);
}

std::uint64_t layer_bytes(model::ModelCard const& card, Cache cache) {
    EXO_ASSERT(card.n_layers > 0);
    return saturating_add(
        multiply_divide(card.storage_size.in_bytes, 1, card.n_layers),
        multiply_divide(kv_cache_bytes(card, cache), 1, card.n_layers)
    );
}

std::uint64_t tensor_rank_bytes(
    model::ModelCard const& card, Cache cache, std::uint64_t share, std::uint64_t total
) {
    EXO_ASSERT(total > 0);
    std::uint64_t const heads = std::max(card.num_key_value_heads, 1u);
    std::uint64_t const own_heads = std::min(heads, multiply_divide(heads, share, total));
    std::uint64_t const weights = multiply_divide(card.storage_size.in_bytes, share, total);
    std::uint64_t const kv = multiply_divide(kv_cache_bytes(card, cache), own_heads, heads);
    // Every tensor rank keeps the whole token embedding (specs/engine.md).
    std::uint64_t const fixed = saturating_add(overhead_bytes(card), vocabulary_bytes(card));
    return saturating_add(saturating_add(weights, kv), fixed);
}

std::uint64_t draft_bytes(model::ModelCard const& draft, std::uint32_t context_length) {
    std::uint64_t const kv = kv_cache_bytes(draft, {.tokens = context_length});
    return saturating_add(saturating_add(draft.storage_size.in_bytes, kv), graph_bytes(draft));
}

} // namespace exo::placement
