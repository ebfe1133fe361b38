// SPDX-License-Identifier: Apache-2.0
//
// How many sequences llama.cpp is to keep apart in one context (n_seq_max): those that run and
// those that are only remembered. The same on all ranks, so nothing of this machine decides it.
#pragma once

#include "base/result.hpp"
#include "engine/cluster_device/cluster.hpp"
#include "engine/load/log_capture.hpp"

#include <llama.h>

#include <cstdint>

namespace exo::engine {

// `parallel`: how many are to run at a time; 0: as many as is good. Error: unsupported, when
// llama.cpp cannot make a context for this model.
//
// Each sequence costs every rank a row of logits; a recurrent state, where the model has one, costs
// as much as it is large, used or not. Both are kept in proportion to the weights, unless the user
// asks for more. In a cache of cells a sequence costs nothing, but some cells should be there for
// each. All outputs of a step are in its last micro-batch, which so holds one of each sequence.
[[nodiscard]] Result<std::uint32_t> sequence_limit(
    llama_model* model,
    Cluster& cluster,
    std::uint32_t ranks,
    llama_context_params parameters,
    std::uint32_t parallel,
    LogCapture& log
);

} // namespace exo::engine
