// SPDX-License-Identifier: Apache-2.0
//
// How much memory a rank needs. Pure. Where llama.cpp has been asked (ModelCard::cuts) its figures
// count; else it is an estimate from the model's card, on the safe side.
//
// A rank holds its slice of the weights and of the KV cache, and what running takes: the process,
// the graph's buffers and, at either end of the model, a vocabulary matrix.
#pragma once

#include "model/instance.hpp"

#include <cstdint>
#include <span>

namespace exo::placement {

// a * b / c rounded up, without overflow on the way; the greatest value if it has no room.
// REQUIRES: c > 0.
[[nodiscard]] std::uint64_t multiply_divide(std::uint64_t a, std::uint64_t b, std::uint64_t c);
[[nodiscard]] std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b);

struct Cache {
    std::uint32_t tokens = 0;
    model::CacheType type = model::CacheType::f16;
};

// Of the whole model.
[[nodiscard]] std::uint64_t kv_cache_bytes(model::ModelCard const& card, Cache cache);

// What a rank takes whatever its slice.
[[nodiscard]] std::uint64_t overhead_bytes(model::ModelCard const& card);

// A vocabulary matrix (token embedding or output), which is no part of any layer. The card does not
// tell its quantization: two bytes a weight, but no more than a quarter of the model.
[[nodiscard]] std::uint64_t vocabulary_bytes(model::ModelCard const& card);

// One layer's part of weights and KV cache. REQUIRES: card.n_layers > 0.
[[nodiscard]] std::uint64_t layer_bytes(model::ModelCard const& card, Cache cache);

// A pipeline rank, with rank 0 at the end of the model and rank 1 at its beginning.
struct StageBytes {
    std::uint64_t fixed = 0; // Whatever its layers.
    std::uint64_t layer = 0; // For each of them.

    [[nodiscard]] std::uint64_t with(std::uint64_t layers) const;
};

// REQUIRES: 0 < ranks <= card.n_layers, rank < ranks.
[[nodiscard]] StageBytes
stage_bytes(model::ModelCard const& card, Cache cache, std::uint32_t rank, std::uint32_t ranks);

// A tensor rank of the width that `shares` gives it. REQUIRES: rank < shares.size(), a sum above 0.
[[nodiscard]] std::uint64_t tensor_rank_bytes(
    model::ModelCard const& card,
    Cache cache,
    std::span<std::uint64_t const> shares,
    std::uint32_t rank
);

// A draft model, whole, beside rank 0's slice and within its process: weights, a cache as long as
// the model's, and the graph's buffers.
[[nodiscard]] std::uint64_t
draft_bytes(model::ModelCard const& draft, std::uint32_t context_length);

} // namespace exo::placement
