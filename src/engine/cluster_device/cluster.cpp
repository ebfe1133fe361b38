// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_device/cluster.hpp"

#include "base/assert.hpp"
#include "engine/cluster_device/pages.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

namespace exo::engine {
namespace {

// Gaps between ranges of one rank that are not worth a range of their own: tensor cuts give tens of
// thousands of small rows, and a download in so many pieces takes longer than the gaps.
constexpr std::uint64_t range_gap_max = 64u << 10;

std::uint8_t* bytes_of(ggml_tensor const* tensor, std::size_t offset) {
    return static_cast<std::uint8_t*>(tensor->data) + offset;
}

} // namespace

Cluster::Cluster(Options options)
    : options_(std::move(options))
    , ranges_(options_.ranks) {
    EXO_ASSERT(options_.ranks > 0);
    EXO_ASSERT(options_.group == nullptr || options_.group->size() == options_.ranks);
    EXO_ASSERT((options_.group == nullptr) == (options_.compute == nullptr));
    bind_hooks(registry_, *this);
    for (std::uint32_t i = 0; i < options_.ranks; ++i) {
        auto device = std::make_unique<ClusterDevice>();
        device->cluster = this;
        device->rank = options_.rank_0_last ? (i + 1) % options_.ranks : i;
        device->local = own_rank() == device->rank;
        device->name = "rank" + std::to_string(device->rank);
        bind_hooks(*device, registry_);
        devices_.push_back(std::move(device));
    }
}

Cluster::~Cluster() = default;

std::optional<std::uint32_t> Cluster::own_rank() const {
    return options_.group != nullptr ? std::optional(options_.group->rank()) : std::nullopt;
}

std::vector<ggml_backend_dev_t> Cluster::devices() {
    std::vector<ggml_backend_dev_t> list;
    for (auto& device : devices_) {
        list.push_back(&device->device);
    }
    return list;
}

std::vector<std::uint32_t> Cluster::ranks_in_order() const {
    std::vector<std::uint32_t> ranks;
    for (auto const& device : devices_) {
        ranks.push_back(device->rank);
    }
    return ranks;
}

DeviceUse Cluster::use(std::uint32_t rank) const {
    DeviceUse use;
    for (auto const& device : devices_) {
        if (device->rank != rank) {
            continue;
        }
        for (auto const* buffer : device->buffers) {
            auto const bytes = ggml_backend_buffer_get_size(buffer->handle);
            switch (ggml_backend_buffer_get_usage(buffer->handle)) {
            case GGML_BACKEND_BUFFER_USAGE_WEIGHTS:
                use.weight_bytes += bytes;
                break;
            case GGML_BACKEND_BUFFER_USAGE_COMPUTE:
                use.compute_bytes += bytes;
                break;
            case GGML_BACKEND_BUFFER_USAGE_ANY:
                use.cache_bytes += bytes;
                break;
            }
        }
    }
    return use;
}

std::optional<std::uint32_t> Cluster::rank_of(ggml_tensor const* tensor) const {
    auto const* owner = tensor->view_src != nullptr ? tensor->view_src : tensor;
    if (owner->buffer == nullptr) {
        return std::nullopt;
    }
    auto const* device = cluster_device(owner->buffer->buft);
    return device != nullptr ? std::optional(device->rank) : std::nullopt;
}

Result<void> Cluster::health() const {
    if (error_) {
        return *error_;
    }
    return options_.group != nullptr ? options_.group->health() : Result<void>();
}

void Cluster::fail(Error error) {
    if (!error_) {
        error_ = std::move(error);
        if (options_.group != nullptr) {
            options_.group->fail(*error_);
        }
    }
}

void Cluster::keep(Result<void> const& result) {
    if (!result) {
        fail(result.error());
    }
}

ggml_backend_buffer_t Cluster::
    allocate(ClusterDevice& device, std::size_t bytes, ggml_backend_buffer_i const& interface) {
    auto const mapped = whole_pages(bytes);
    int const access = device.local ? PROT_READ | PROT_WRITE : PROT_NONE;
    void* base =
        mmap(nullptr, mapped, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, 0);
    if (base == MAP_FAILED) {
        fail(errno_error("cannot reserve " + std::to_string(mapped) + " bytes of memory"));
        return nullptr;
    }
    auto buffer = std::make_unique<ClusterBuffer>();
    *buffer = {.device = &device, .base = base, .bytes = mapped};
    buffer->handle = ggml_backend_buffer_init(&device.buffer_type, interface, buffer.get(), bytes);
    device.buffers.push_back(buffer.get());
    if (device.local && !rehearsal_) {
        options_.compute->add_memory(base, mapped);
    }
    return buffer.release()->handle; // Owned by the handle, until release().
}

void Cluster::release(ClusterBuffer* buffer) {
    std::unique_ptr<ClusterBuffer> const owned(buffer);
    std::erase(buffer->device->buffers, buffer);
    if (buffer->device->local) {
        options_.compute->remove_memory(buffer->base, buffer->bytes);
    }
    munmap(buffer->base, buffer->bytes);
}

void Cluster::note_range(std::uint32_t rank, FilePlace place, std::uint64_t bytes) {
    auto& ranges = ranges_[rank];
    if (!ranges.empty() && ranges.back().place.file == place.file) {
        auto& last = ranges.back();
        auto const end = last.place.offset + last.bytes;
        if (place.offset >= last.place.offset && place.offset <= end + range_gap_max) {
            last.bytes = std::max(end, place.offset + bytes) - last.place.offset;
            return;
        }
    }
    ranges.push_back({place, bytes});
}

void Cluster::note_ranges(std::uint32_t rank, void const* data, Rows const& rows) {
    auto const place = source_->place_of(data);
    if (!place) {
        if (auto const tensor = source_->current()) {
            note_range(rank, tensor->place, tensor->bytes);
        }
        return;
    }
    for (std::size_t i = 0; i < rows.count; ++i) {
        note_range(rank, {place->file, place->offset + i * rows.data_stride}, rows.bytes);
    }
}

void Cluster::set(
    ClusterDevice const& device, ggml_tensor* tensor, void const* data, Rows const& rows
) {
    if (source_ != nullptr) {
        note_ranges(device.rank, data, rows);
    }
    if (!device.local || quiet()) {
        return;
    }
    if (auto const place = source_ != nullptr ? source_->place_of(data) : std::nullopt) {
        reads_.push_back({
            .from = *place,
            .to = bytes_of(tensor, rows.offset),
            .bytes = rows.bytes,
            .count = rows.count,
            .file_stride = rows.data_stride,
            .memory_stride = rows.tensor_stride,
        });
        return;
    }
    auto const* from = static_cast<std::uint8_t const*>(data);
    for (std::size_t i = 0; i < rows.count; ++i) {
        auto* const to = bytes_of(tensor, rows.offset + i * rows.tensor_stride);
        std::memcpy(to, from + i * rows.data_stride, rows.bytes);
        keep(options_.compute->from_host(to, rows.bytes));
    }
}

// Results go to rank 0: it alone samples.
void Cluster::get(
    ClusterDevice const& device, ggml_tensor const* tensor, void* data, Rows const& rows
) {
    auto const rank = own_rank();
    if (quiet() || !rank || (!device.local && *rank != 0)) {
        return;
    }
    auto* const to = static_cast<std::uint8_t*>(data);
    if (device.local && *rank == 0) {
        for (std::size_t i = 0; i < rows.count; ++i) {
            auto const* row = bytes_of(tensor, rows.offset + i * rows.tensor_stride);
            keep(options_.compute->to_host(row, rows.bytes));
            std::memcpy(to + i * rows.data_stride, row, rows.bytes);
        }
        return;
    }
    rows_.resize(rows.count * rows.bytes);
    if (device.local) {
        for (std::size_t i = 0; i < rows.count; ++i) {
            auto const* row = bytes_of(tensor, rows.offset + i * rows.tensor_stride);
            keep(options_.compute->to_host(row, rows.bytes));
            std::memcpy(rows_.data() + i * rows.bytes, row, rows.bytes);
        }
        keep(options_.group->send(0, rows_));
        return;
    }
    keep(options_.group->receive(device.rank, rows_));
    for (std::size_t i = 0; i < rows.count; ++i) {
        std::memcpy(to + i * rows.data_stride, rows_.data() + i * rows.bytes, rows.bytes);
    }
}

void Cluster::copy(
    ClusterDevice const& from,
    ClusterDevice const& to,
    ggml_tensor const* source,
    ggml_tensor* target
) {
    if (quiet() || (!from.local && !to.local)) {
        return;
    }
    auto const bytes = ggml_nbytes(source);
    if (from.local) {
        keep(options_.compute->to_host(source->data, bytes));
    }
    if (from.local && to.local) {
        std::memcpy(target->data, source->data, bytes);
    } else if (from.local) {
        keep(options_.group->send(to.rank, {bytes_of(source, 0), bytes}));
    } else {
        keep(options_.group->receive(from.rank, {bytes_of(target, 0), bytes}));
    }
    if (to.local) {
        keep(options_.compute->from_host(target->data, bytes));
    }
}

void Cluster::fill(
    ClusterDevice const& device,
    ggml_tensor* tensor,
    std::uint8_t value,
    std::size_t offset,
    std::size_t bytes
) {
    if (device.local && !quiet()) {
        std::memset(bytes_of(tensor, offset), value, bytes);
        keep(options_.compute->from_host(bytes_of(tensor, offset), bytes));
    }
}

void Cluster::clear(ClusterBuffer const& buffer, std::uint8_t value) {
    if (!buffer.device->local || quiet()) {
        return;
    }
    if (value == 0) { // Fresh pages are zero, and cost nothing until they are used.
        madvise(buffer.base, buffer.bytes, MADV_DONTNEED);
    } else {
        std::memset(buffer.base, value, buffer.bytes);
    }
    keep(options_.compute->cleared(buffer.base, buffer.bytes, value));
}

Result<void> Cluster::place_weights(std::uint64_t other_bytes) {
    EXO_ASSERT(options_.compute != nullptr);
    return options_.compute->place_weights(other_bytes);
}

ggml_status Cluster::compute_graph(ClusterDevice& device, ggml_cgraph* graph) {
    if (error_) {
        return GGML_STATUS_FAILED;
    }
    if (!device.local) {
        return GGML_STATUS_SUCCESS;
    }
    if (rehearsal_) {
        options_.compute->observe(graph);
        return GGML_STATUS_SUCCESS;
    }
    if (auto done = options_.compute->compute(graph, &device.buffer_type); !done) {
        fail(done.error());
        return GGML_STATUS_FAILED;
    }
    return GGML_STATUS_SUCCESS;
}

bool Cluster::all_reduce(ggml_tensor** parts) {
    ++reductions_;
    if (quiet() || options_.group == nullptr) {
        return true;
    }
    auto* const part = parts[options_.group->rank()]; // Tensor mode: devices are in rank order.
    if (part->type != GGML_TYPE_F32 || !ggml_is_contiguous(part)) {
        fail(Error(Errc::unsupported, std::string("cannot sum tensor ") + part->name));
        return true;
    }
    auto const count = static_cast<std::size_t>(ggml_nelements(part));
    std::span<float> const values(static_cast<float*>(part->data), count);
    if ((part->flags & GGML_TENSOR_FLAG_COMPUTE) == 0) {
        std::ranges::fill(values, 0.0F); // This rank's slice is empty: nothing computed the part.
    } else {
        keep(options_.compute->to_host(values.data(), values.size_bytes()));
    }
    keep(options_.group->all_reduce(values));
    keep(options_.compute->from_host(values.data(), values.size_bytes()));
    return true;
}

} // namespace exo::engine
