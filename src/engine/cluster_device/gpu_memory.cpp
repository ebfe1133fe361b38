// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_device/gpu_memory.hpp"

#include "base/assert.hpp"

#include <ggml-backend-impl.h>

#include <algorithm>

namespace exo::engine {
namespace {

// Sizes of memory that any backend can fill.
constexpr std::size_t granule_bytes = 256;

ggml_tensor as_bytes(ggml_backend_buffer_t buffer, std::size_t bytes) {
    ggml_tensor tensor{};
    tensor.type = GGML_TYPE_I8;
    tensor.buffer = buffer;
    tensor.data = ggml_backend_buffer_get_base(buffer);
    std::ranges::fill(tensor.ne, 1);
    tensor.ne[0] = static_cast<std::int64_t>(bytes);
    std::ranges::fill(tensor.nb, bytes);
    tensor.nb[0] = 1;
    return tensor;
}

// Of a device buffer's tensors, as its cluster buffer says it. Some backends care.
ggml_backend_buffer_usage usage_of(ggml_tensor const& tensor) {
    auto const* owner = tensor.view_src != nullptr ? tensor.view_src : &tensor;
    return owner->buffer != nullptr ? ggml_backend_buffer_get_usage(owner->buffer)
                                    : GGML_BACKEND_BUFFER_USAGE_ANY;
}

} // namespace

bool GpuMemory::add(ByteRange pages) {
    EXO_ASSERT(pages.size() > 0 && !touches(pages));
    Extent extent{.pages = pages};
    auto const bytes = (pages.size() + granule_bytes - 1) / granule_bytes * granule_bytes;
    extent.buffer.reset(ggml_backend_buft_alloc_buffer(type_, bytes));
    if (!extent.buffer) {
        return false;
    }
    extent.all = as_bytes(extent.buffer.get(), pages.size());
    ggml_backend_buffer_clear(extent.buffer.get(), 0);
    bytes_ += pages.size();
    extents_.emplace(pages.begin, std::move(extent));
    return true;
}

void GpuMemory::remove(ByteRange pages) {
    auto const first = extents_.lower_bound(pages.begin);
    auto last = first;
    for (; last != extents_.end() && last->first < pages.end; ++last) {
        bytes_ -= last->second.pages.size();
    }
    extents_.erase(first, last);
}

GpuMemory::Extent const* GpuMemory::find(ByteRange range) const {
    auto const after = extents_.upper_bound(range.begin);
    if (after == extents_.begin()) {
        return nullptr;
    }
    auto const& extent = std::prev(after)->second;
    return range.end <= extent.pages.end ? &extent : nullptr;
}

bool GpuMemory::touches(ByteRange range) const {
    auto const after = extents_.lower_bound(range.end);
    return range.size() > 0 && after != extents_.begin() &&
           std::prev(after)->second.pages.end > range.begin;
}

void GpuMemory::place(ggml_tensor& copy) const {
    auto const range = ByteRange::of(copy.data, ggml_nbytes(&copy));
    auto const* extent = find(range);
    EXO_ASSERT(extent != nullptr);
    ggml_backend_buffer_set_usage(extent->buffer.get(), usage_of(copy));
    copy.buffer = extent->buffer.get();
    copy.data = static_cast<std::uint8_t*>(extent->all.data) + (range.begin - extent->pages.begin);
    copy.extra = nullptr;
}

void GpuMemory::each_part(
    ByteRange range, std::function<void(Extent const&, ByteRange)> const& visit
) const {
    auto at = extents_.upper_bound(range.begin);
    if (at != extents_.begin()) {
        --at;
    }
    for (; at != extents_.end() && at->first < range.end; ++at) {
        auto const& pages = at->second.pages;
        ByteRange const part{std::max(range.begin, pages.begin), std::min(range.end, pages.end)};
        if (part.begin < part.end) {
            visit(at->second, part);
        }
    }
}

void GpuMemory::upload(ByteRange range) const {
    each_part(range, [](Extent const& extent, ByteRange part) {
        auto all = extent.all;
        ggml_backend_tensor_set(&all, part.data(), part.begin - extent.pages.begin, part.size());
    });
}

void GpuMemory::download(ByteRange range) const {
    each_part(range, [](Extent const& extent, ByteRange part) {
        auto const offset = part.begin - extent.pages.begin;
        ggml_backend_tensor_get(&extent.all, part.data(), offset, part.size());
    });
}

void GpuMemory::fill(ByteRange range, std::uint8_t value) const {
    each_part(range, [value](Extent const& extent, ByteRange part) {
        if (part == extent.pages) {
            ggml_backend_buffer_clear(extent.buffer.get(), value);
        } else {
            auto all = extent.all;
            auto const offset = part.begin - extent.pages.begin;
            ggml_backend_tensor_memset(&all, value, offset, part.size());
        }
    });
}

} // namespace exo::engine
