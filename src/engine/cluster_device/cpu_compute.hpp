// SPDX-License-Identifier: Apache-2.0
//
// The CPU backend of this process, found through ggml's registry (it may be a plug-in), with
// threads that live as long as we do.
//
// One thread drives it: the one that calls llama_decode.
#pragma once

#include "engine/cluster_device/local_compute.hpp"

#include <ggml-cpp.h>

#include <vector>

namespace exo::engine {

class WeightPacker;

class CpuCompute final : public LocalCompute {
public:
    // Error: unsupported, when this build has no CPU backend for this machine.
    [[nodiscard]] static Result<std::unique_ptr<CpuCompute>> make(std::uint32_t threads);
    ~CpuCompute() override;

    CpuCompute(CpuCompute const&) = delete;
    CpuCompute& operator=(CpuCompute const&) = delete;

    [[nodiscard]] Result<void>
    compute(ggml_cgraph* graph, ggml_backend_buffer_type_t type) override;

    [[nodiscard]] ggml_threadpool_t threads() const override { return threads_; }

    [[nodiscard]] std::string describe() const override { return "the CPU"; }

    // The two halves of compute(), for a GPU that leaves some nodes to the CPU.
    [[nodiscard]] Result<void> pack(ggml_cgraph* graph, ggml_backend_buffer_type_t type);
    [[nodiscard]] Result<void> compute_packed(ggml_cgraph* graph);

    [[nodiscard]] ggml_backend_t backend() const { return backend_.get(); }

    // Buffer types with another layout of weights than the file's, best first (weight_packer.hpp).
    [[nodiscard]] std::vector<ggml_backend_buffer_type_t> packed_types() const;

private:
    CpuCompute();

    ggml_backend_ptr backend_;
    ggml_threadpool_t threads_ = nullptr;
    std::unique_ptr<WeightPacker> packer_;
};

} // namespace exo::engine
