// SPDX-License-Identifier: Apache-2.0
//
// What the local device computes on: the CPU backend of this process, found through ggml's registry
// (it may be a plug-in), with threads that live as long as we do. A GPU of this machine will take
// its place in front of the CPU here; the answers of the cluster device do not depend on it.
//
// One thread drives it: the one that calls llama_decode.
#pragma once

#include "base/result.hpp"

#include <ggml-backend.h>
#include <ggml-cpp.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace exo::engine {

class LocalCompute {
public:
    // Error: unsupported, when this build has no CPU backend for this machine.
    [[nodiscard]] static Result<std::unique_ptr<LocalCompute>> make(std::uint32_t threads);
    ~LocalCompute();

    LocalCompute(LocalCompute const&) = delete;
    LocalCompute& operator=(LocalCompute const&) = delete;

    [[nodiscard]] ggml_status compute(ggml_cgraph* graph);

    [[nodiscard]] ggml_backend_t backend() const { return backend_.get(); }

    // Buffer types with another layout of weights than the file's, best first (weight_packer.hpp).
    [[nodiscard]] std::vector<ggml_backend_buffer_type_t> packed_types() const;

    // To be shared with llama.cpp's own CPU backend: both never compute at once. Null with one
    // thread.
    [[nodiscard]] ggml_threadpool_t threads() const { return threads_; }

private:
    LocalCompute() = default;

    ggml_backend_ptr backend_;
    ggml_threadpool_t threads_ = nullptr;
};

} // namespace exo::engine
