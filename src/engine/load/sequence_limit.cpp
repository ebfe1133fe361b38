// SPDX-License-Identifier: Apache-2.0
#include "engine/load/sequence_limit.hpp"

#include <llama-cpp.h>

#include <algorithm>

namespace exo::engine {
namespace {

// For each sequence there should be so many: a short question and its answer.
constexpr std::uint32_t cells_per_sequence = 32;
// Logits may take this part of the size of a rank's weights, recurrent states this part of all.
constexpr std::uint64_t weights_per_logits = 16;
constexpr std::uint64_t weights_per_states = 8;
// Even on a tiny model, these many sequences.
constexpr std::uint64_t sequences_min = 4;

// Over all ranks, what the cache takes in a context for so many sequences. Nothing is computed.
Result<std::uint64_t> cache_bytes(
    std::uint32_t sequences,
    llama_model* model,
    Cluster& cluster,
    std::uint32_t ranks,
    llama_context_params parameters,
    LogCapture& log
) {
    parameters.n_ctx = parameters.n_ubatch; // Small: cells are of no interest.
    parameters.n_seq_max = sequences;
    cluster.set_rehearsal(true);
    llama_context_ptr const context(llama_init_from_model(model, parameters));
    cluster.set_rehearsal(false);
    if (!context) {
        return Error(
            Errc::unsupported,
            "llama.cpp cannot make a context for this model: " + log.take_errors()
        );
    }
    std::uint64_t bytes = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        bytes += cluster.use(rank).cache_bytes;
    }
    return bytes;
}

// Of one sequence, whatever its length.
Result<std::uint64_t> state_bytes(
    llama_model* model,
    Cluster& cluster,
    std::uint32_t ranks,
    llama_context_params const& parameters,
    LogCapture& log
) {
    if (!llama_model_is_recurrent(model) && !llama_model_is_hybrid(model)) {
        return 0;
    }
    auto const one = cache_bytes(1, model, cluster, ranks, parameters, log);
    if (!one) {
        return one.error();
    }
    auto const two = cache_bytes(2, model, cluster, ranks, parameters, log);
    if (!two) {
        return two.error();
    }
    return *two > *one ? *two - *one : 0;
}

} // namespace

Result<std::uint32_t> sequence_limit(
    llama_model* model,
    Cluster& cluster,
    std::uint32_t ranks,
    llama_context_params parameters,
    std::uint32_t parallel,
    LogCapture& log
) {
    auto const state = state_bytes(model, cluster, ranks, parameters, log);
    if (!state) {
        return state.error();
    }
    std::uint64_t weights = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        weights += cluster.use(rank).weight_bytes;
    }
    auto const vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    auto const logits = std::max<std::uint64_t>(1, sizeof(float) * std::uint64_t(vocabulary));
    auto limit = weights / ranks / weights_per_logits / logits;
    if (*state > 0) {
        limit = std::min(limit, weights / weights_per_states / *state);
    }
    limit = std::max(limit, sequences_min);
    limit = std::min<std::uint64_t>(limit, parameters.n_ctx / cells_per_sequence);
    limit = std::max<std::uint64_t>({limit, parallel, 1});
    auto const most = std::min<std::uint64_t>(llama_max_parallel_sequences(), parameters.n_ubatch);
    return static_cast<std::uint32_t>(std::min(limit, most));
}

} // namespace exo::engine
