// SPDX-License-Identifier: Apache-2.0
//
// Which weights a GPU takes. Pure: tensors and sizes in, ranges of memory out.
//
// The policy: a weight goes to the GPU when the GPU can do everything that the model does with it
// and there is room. Room goes to weights in the order of their memory, which is llama.cpp's: the
// output matrix, then layer after layer; the first that finds no room ends it. So of a model that
// does not fit, the last layers stay in host memory, and the CPU computes with them there; nothing
// is refused. A weight that not even an empty GPU could hold is passed over.
#pragma once

#include "engine/cluster_device/byte_ranges.hpp"

#include <vector>

namespace exo::engine {

struct WeightUse {
    ByteRange memory; // With the padding that a kernel may read.
    bool gpu_can = false;
};

struct WeightHomes {
    // Each is to be one GPU buffer: neighbours lie together.
    std::vector<ByteRange> on_gpu;
    std::uint64_t gpu_bytes = 0;
    std::uint64_t host_bytes_without_room = 0;
    std::uint64_t host_bytes_without_kernel = 0;
};

struct GpuRoom {
    std::uint64_t bytes = 0;
    std::uint64_t buffer_bytes_max = 0; // A larger weight has a buffer of its own.
};

[[nodiscard]] WeightHomes choose_weight_homes(std::vector<WeightUse> weights, GpuRoom const& room);

} // namespace exo::engine
