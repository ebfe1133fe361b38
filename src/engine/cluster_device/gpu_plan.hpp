// SPDX-License-Identifier: Apache-2.0
//
// How a graph of the local device runs on a GPU and a CPU: in runs of nodes that one of the two
// computes. A node is the GPU's when all of its tensors are in the GPU's memory and its backend has
// the operation. The GPU computes on mirrors: copies of the tensors that say where their bytes are
// there. The CPU computes on the tensors themselves, whose bytes are first fetched into the pages,
// and what it wrote is sent back.
//
// A plan holds as long as graph and memory stay as they are.
#pragma once

#include "engine/cluster_device/byte_ranges.hpp"
#include "engine/cluster_device/gpu_memory.hpp"

#include <ggml-cpp.h>

#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace exo::engine {

struct GraphRun {
    bool gpu = false;
    std::vector<ggml_tensor*> nodes;
    std::vector<std::int32_t> use_counts; // Of the nodes, in the whole graph: backends fuse by it.
    ggml_cgraph* graph = nullptr;         // Of the nodes; belongs to the plan.
    // Of the CPU.
    ByteRanges fetched; // Before.
    ByteRanges written;
};

struct GraphPlan {
    std::vector<GraphRun> runs;
    std::deque<ggml_tensor> mirrors;
    ggml_context_ptr graphs;
};

class GraphPlanner {
public:
    // `scratch` gives GPU memory of at least that size, which is a plan's while it runs; null when
    // there is none.
    using Scratch = std::function<ggml_backend_buffer_t(std::size_t bytes)>;

    GraphPlanner(ggml_backend_dev_t gpu, GpuMemory const& memory, Scratch scratch);

    [[nodiscard]] std::unique_ptr<GraphPlan> make(ggml_cgraph* graph) const;

private:
    ggml_backend_dev_t gpu_;
    GpuMemory const& memory_;
    Scratch scratch_;
};

// Whether the GPU could compute the node if all of its tensors were there. `anywhere` is an empty
// buffer of the GPU.
[[nodiscard]] bool
could_compute(ggml_backend_dev_t gpu, ggml_tensor const* node, ggml_backend_buffer_t anywhere);

} // namespace exo::engine
