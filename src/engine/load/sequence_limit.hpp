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
// In a cache of cells a sequence costs next to nothing, so cells decide. A recurrent state costs
// its size for each sequence, whether used or not, so the size of the weights decides. All outputs
// of a step are in its last micro-batch, which so holds one token of each sequence.
[[nodiscard]] Result<std::uint32_t> sequence_limit(
    llama_model* model,
    Cluster& cluster,
    std::uint32_t ranks,
    llama_context_params parameters,
    std::uint32_t parallel,
    LogCapture& log
);

} // namespace exo::engine
