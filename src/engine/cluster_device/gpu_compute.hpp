// SPDX-License-Identifier: Apache-2.0
//
// A GPU in front of the CPU. Weights that it has room and kernels for are in its memory, and so are
// cache and activations; what it cannot compute the CPU does (gpu_plan.hpp). Any backend of ggml
// with memory of its own will do; it is reached through the functions of its registry only.
//
// One thread drives it; landed() may come from others while that one waits for them.
#pragma once

#include "engine/cluster_device/cpu_compute.hpp"
#include "engine/cluster_device/gpu_memory.hpp"
#include "engine/cluster_device/gpu_plan.hpp"
#include "engine/cluster_device/weight_homes.hpp"

#include <ggml-cpp.h>

#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace exo::engine {

class GpuCompute final : public LocalCompute {
public:
    // Error: unsupported, when the device does not start, or is of a kind that this cannot use.
    [[nodiscard]] static Result<std::unique_ptr<GpuCompute>>
    make(ggml_backend_dev_t device, std::unique_ptr<CpuCompute> cpu);
    ~GpuCompute() override;

    GpuCompute(GpuCompute const&) = delete;
    GpuCompute& operator=(GpuCompute const&) = delete;

    [[nodiscard]] Result<void>
    compute(ggml_cgraph* graph, ggml_backend_buffer_type_t type) override;

    [[nodiscard]] ggml_threadpool_t threads() const override { return cpu_->threads(); }

    [[nodiscard]] std::string describe() const override;

    void add_memory(void* pages, std::size_t bytes) override;
    void remove_memory(void* pages, std::size_t bytes) override;
    void observe(ggml_cgraph* graph) override;
    [[nodiscard]] Result<void> place_weights(std::uint64_t other_bytes) override;
    [[nodiscard]] Result<void> landed(WeightRead const& read) override;
    [[nodiscard]] Result<void> to_host(void const* at, std::size_t bytes) override;
    [[nodiscard]] Result<void> from_host(void const* at, std::size_t bytes) override;
    [[nodiscard]] Result<void> cleared(void* pages, std::size_t bytes, std::uint8_t value) override;

    [[nodiscard]] std::size_t plans() const { return plans_.size(); }

private:
    struct CachedPlan {
        std::unique_ptr<GraphPlan> plan;
        std::uint64_t used = 0; // By the count of graphs.
    };

    GpuCompute(ggml_backend_dev_t device, ggml_backend_ptr gpu, std::unique_ptr<CpuCompute> cpu);

    // Calls into the GPU's backend, which may throw.
    template <class Work>
    Result<void> guarded(Work const& work);
    void wait_for_gpu();
    void forget_plans();
    [[nodiscard]] ggml_backend_buffer_t scratch(std::size_t bytes);
    Result<void> pack_for_cpu(GraphPlan const& plan, ggml_backend_buffer_type_t type);
    Result<void> run(GraphPlan const& plan);
    void remove_least_used_plan();

    ggml_backend_dev_t device_;
    ggml_backend_ptr gpu_;
    std::unique_ptr<CpuCompute> cpu_;
    GpuMemory memory_;
    ggml_backend_buffer_ptr anywhere_; // Empty, for questions.
    ggml_backend_buffer_ptr scratch_;
    GraphPlanner planner_;

    std::map<std::uintptr_t, WeightUse> weights_; // Seen in the rehearsal, by their addresses.
    ByteRanges early_;                            // Written before the weights were placed.
    bool placed_ = false;
    WeightHomes homes_;
    std::map<void const*, std::size_t> in_host_; // Cache and activations, for want of room.

    std::unordered_map<std::uint64_t, CachedPlan> plans_; // By ggml's id of the graph.
    std::uint64_t graphs_ = 0;
    bool busy_ = false;  // The GPU may be computing.
    std::mutex loading_; // Of landed().
};

} // namespace exo::engine
