// SPDX-License-Identifier: Apache-2.0
//
// How tensors lie in the memory of a cluster device. The same on all ranks, and enough for every
// backend that may compute below a device.
#pragma once

#include <ggml.h>

#include <cstddef>

namespace exo::engine {

constexpr std::size_t device_alignment_bytes = 256;

// CUDA's kernels for quantised matrices read rows up to a multiple of so many elements.
constexpr std::int64_t device_row_elements = 512;

// With the padding that a kernel may read.
[[nodiscard]] inline std::size_t device_alloc_bytes(ggml_tensor const* tensor) {
    auto const bytes = ggml_nbytes(tensor);
    auto const rest = tensor->ne[0] % device_row_elements;
    bool const padded = ggml_is_quantized(tensor->type) && rest != 0;
    return padded ? bytes + ggml_row_size(tensor->type, device_row_elements - rest) : bytes;
}

} // namespace exo::engine
