// SPDX-License-Identifier: Apache-2.0
//
// The memory of a GPU that stands for pages of the local device. An extent of pages has one GPU
// buffer of the same size, and a tensor lies in it as far from the beginning as in the pages: so
// views, and tensors that share memory, are to each other as llama.cpp laid them out.
//
// What no extent holds is in the pages themselves: host memory.
//
// Not synchronised: the caller sees to it that the GPU is idle and that calls come one at a time.
// Functions of a GPU backend may throw; the caller catches.
#pragma once

#include "engine/cluster_device/byte_ranges.hpp"

#include <ggml-cpp.h>

#include <functional>
#include <map>

namespace exo::engine {

class GpuMemory {
public:
    explicit GpuMemory(ggml_backend_buffer_type_t type)
        : type_(type) {}

    // Zeroed, for kernels may read past the end of a row. False when the GPU has no room for it.
    [[nodiscard]] bool add(ByteRange pages);
    // All extents within the pages.
    void remove(ByteRange pages);

    // Whether the whole range is in one extent; whether any of it is in one.
    [[nodiscard]] bool holds(ByteRange range) const { return find(range) != nullptr; }

    [[nodiscard]] bool touches(ByteRange range) const;

    // Moves a copy of a tensor of the local device to where its bytes are. REQUIRES: holds() them.
    void place(ggml_tensor& copy) const;

    // What of the range is in extents.
    void upload(ByteRange range) const;
    void download(ByteRange range) const;
    void fill(ByteRange range, std::uint8_t value) const;

    [[nodiscard]] ggml_backend_buffer_type_t type() const { return type_; }

    [[nodiscard]] std::size_t bytes() const { return bytes_; }

private:
    struct Extent {
        ByteRange pages;
        ggml_backend_buffer_ptr buffer;
        ggml_tensor all{}; // As so many bytes.
    };

    [[nodiscard]] Extent const* find(ByteRange range) const;
    void
    each_part(ByteRange range, std::function<void(Extent const&, ByteRange)> const& visit) const;

    ggml_backend_buffer_type_t type_;
    std::map<std::uintptr_t, Extent> extents_; // By their beginnings.
    std::size_t bytes_ = 0;
};

} // namespace exo::engine
