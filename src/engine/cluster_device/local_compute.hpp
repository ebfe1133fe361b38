// SPDX-License-Identifier: Apache-2.0
//
// What the local device computes on: this machine's CPU (cpu_compute.hpp), or a GPU with the CPU
// below it (gpu_compute.hpp). The answers of the cluster device to llama.cpp do not depend on it.
//
// The memory of the local device is pages of this process, under the addresses that its tensors
// have. A GPU has memory of its own, and the pages are then where bytes pass on their way to it and
// back: whoever reads them calls to_host() before, whoever has written them calls from_host().
//
// One thread drives it, the one that calls llama.cpp; only landed() may come from others.
#pragma once

#include "base/result.hpp"
#include "engine/cluster_device/file_source.hpp"

#include <ggml-backend.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace exo::engine {

class LocalCompute {
public:
    virtual ~LocalCompute() = default;

    // Computes the nodes, whose tensors are in buffers of `type`. A GPU may still be at it when
    // this returns; to_host() waits. Error: the reason.
    [[nodiscard]] virtual Result<void>
    compute(ggml_cgraph* graph, ggml_backend_buffer_type_t type) = 0;

    // To be shared with llama.cpp's own CPU backend: both never compute at once. Null with one
    // thread.
    [[nodiscard]] virtual ggml_threadpool_t threads() const = 0;

    // For people: the device, and what of the model is where.
    [[nodiscard]] virtual std::string describe() const = 0;

    // ---- what only matters to memory outside of this process

    // Pages became, or are about to cease to be, memory of the device.
    virtual void add_memory(void* /*pages*/, std::size_t /*bytes*/) {}

    virtual void remove_memory(void* /*pages*/, std::size_t /*bytes*/) {}

    // A graph of the rehearsal, which shows what weights are used for.
    virtual void observe(ggml_cgraph* /*graph*/) {}

    // After the rehearsal and before the first weight is read: decides where each weight will be.
    // `other_bytes`: what cache and computation are going to need.
    [[nodiscard]] virtual Result<void> place_weights(std::uint64_t /*other_bytes*/) { return {}; }

    // The bytes of a weight are in the pages now. Called from any thread.
    [[nodiscard]] virtual Result<void> landed(WeightRead const& /*read*/) { return {}; }

    [[nodiscard]] virtual Result<void> to_host(void const* /*at*/, std::size_t /*bytes*/) {
        return {};
    }

    [[nodiscard]] virtual Result<void> from_host(void const* /*at*/, std::size_t /*bytes*/) {
        return {};
    }

    // The pages have been filled with the value.
    [[nodiscard]] virtual Result<void>
    cleared(void* /*pages*/, std::size_t /*bytes*/, std::uint8_t /*value*/) {
        return {};
    }
};

struct ComputeOptions {
    // "auto": the best GPU that this build knows of, else the CPU. "cpu". Else a device by the name
    // that ggml lists it under, such as "CUDA0" or "Vulkan0".
    std::string device = "auto";
    std::uint32_t threads = 1; // Of the CPU.
};

// Errors: not_found, when there is no device of that name (says which there are); unsupported, when
// this build has no CPU backend for this machine.
[[nodiscard]] Result<std::unique_ptr<LocalCompute>> make_local_compute(ComputeOptions const& options
);

} // namespace exo::engine
