// SPDX-License-Identifier: Apache-2.0
//
// A decode in which nothing is computed or transferred. It shows, before any weight is read, what
// llama.cpp will ask of which rank, and whether it asks for something that ranks cannot do; some
// models fail in their first decode only. Some fail by an abort of ggml: whoever rehearses should
// have set ggml_set_abort_callback.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "engine/cluster_device/cluster.hpp"
#include "engine/load/log_capture.hpp"

#include <llama.h>

#include <vector>

namespace exo::engine {

struct Rehearsal {
    std::vector<DeviceUse> use;           // By rank; cache and compute are of this context.
    std::vector<bool> needs_host_weights; // By rank: what is computed from them reaches the rank.
    Bytes trace;                          // Every node with its place: equal on all ranks.
    std::uint32_t context_length = 0;     // As llama.cpp rounded it.
};

// REQUIRES: the cluster has no error. Error: unsupported, with llama.cpp's reason.
[[nodiscard]] Result<Rehearsal> rehearse(
    llama_model* model,
    Cluster& cluster,
    std::uint32_t ranks,
    llama_context_params parameters,
    LogCapture& log
);

} // namespace exo::engine
