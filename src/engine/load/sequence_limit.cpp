// SPDX-License-Identifier: Apache-2.0
#include "engine/load/sequence_limit.hpp"

#include <llama-cpp.h>

#include <algorithm>

namespace exo::engine {
namespace {

// llama.cpp's LLAMA_MAX_SEQ, which its interface only gives through llama_max_parallel_sequences().
std::uint32_t most_of_llama() {
    return static_cast<std::uint32_t>(llama_max_parallel_sequences());
}

// Cells for each sequence that may run; a question with a short answer.
constexpr std::uint32_t cells_per_sequence = 32;
// Recurrent states may take this part of the size of the weights ...
constexpr std::uint64_t weights_per_states = 8;
// ... or these many their size.
constexpr std::uint32_t states_min = 4;

struct Sizes {
    std::uint64_t weights = 0;
    std::uint64_t cache = 0;
};

// Over all ranks, in a context for so many sequences in which nothing is computed.
Result<Sizes> sizes_with(
    std::uint32_t sequences,
    llama_model* model,
    Cluster& cluster,
    std::uint32_t ranks,
    llama_context_params parameters,
    LogCapture& log
) {
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
    Sizes sizes;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        sizes.weights += cluster.use(rank).weight_bytes;
        sizes.cache += cluster.use(rank).cache_bytes;
    }
    return sizes;
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
    auto const most = std::min(most_of_llama(), parameters.n_ubatch);
    auto const by_cells = std::max(1u, parameters.n_ctx / cells_per_sequence);
    auto const limit = std::clamp(by_cells, parallel, std::max(parallel, most));
    if (!llama_model_is_recurrent(model) && !llama_model_is_hybrid(model)) {
        return std::min(limit, most);
    }
    // The smallest context there is: only what a sequence adds is of interest.
    parameters.n_ctx = parameters.n_ubatch;
    auto const one = sizes_with(1, model, cluster, ranks, parameters, log);
    if (!one) {
        return one.error();
    }
    auto const two = sizes_with(2, model, cluster, ranks, parameters, log);
    if (!two) {
        return two.error();
    }
    auto const state = std::max<std::uint64_t>(1, two->cache - one->cache);
    auto const by_states = std::max<std::uint64_t>(
        std::max(parallel, states_min), one->weights / weights_per_states / state
    );
    return static_cast<std::uint32_t>(std::min<std::uint64_t>({limit, most, by_states}));
}

} // namespace exo::engine
