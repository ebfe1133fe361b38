// SPDX-License-Identifier: Apache-2.0
//
// The ggml backend `cluster`: its devices are the ranks of an instance. On rank r, device r is
// local and computes; the others are stand-ins, which reserve address space and hold nothing.
// llama.cpp splits a model over the devices, and asks for copies between them: the owner of the
// source sends, the owner of the destination receives, the others do nothing.
//
// Whatever llama.cpp asks of a device has the same answer on all ranks, for its decisions follow
// from the answers, and the ranks must run the same program. ggml does not know this backend: the
// devices go to llama.cpp in its parameters, and no other user of ggml may pick one.
//
// The first error is kept (health()): from then on transfers do nothing and graphs fail.
//
// One thread: the one that calls llama.cpp. The object must outlive models and contexts on it.
#pragma once

#include "base/result.hpp"
#include "collective/group.hpp"
#include "engine/cluster_device/file_source.hpp"
#include "engine/cluster_device/local_compute.hpp"

#include <ggml-backend-impl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace exo::engine {

class Cluster;
struct ClusterDevice;

// A buffer of a device: pages if the device is local, else addresses only.
struct ClusterBuffer {
    ClusterDevice* device = nullptr;
    void* base = nullptr;
    std::size_t bytes = 0; // Mapped: whole pages.
    ggml_backend_buffer_t handle = nullptr;
};

struct ClusterDevice {
    Cluster* cluster = nullptr;
    std::uint32_t rank = 0;
    bool local = false;
    std::string name;
    // Together in one object: ggml keeps a device's address with its buffer type's for good.
    ggml_backend_device device{};
    ggml_backend_buffer_type buffer_type{};
    std::vector<ClusterBuffer*> buffers;
};

// A part of a file that a rank needs.
struct FileRange {
    FilePlace place;
    std::uint64_t bytes = 0;
};

struct DeviceUse {
    std::uint64_t weight_bytes = 0;
    std::uint64_t cache_bytes = 0;
    std::uint64_t compute_bytes = 0;
};

// Rows of one tensor, as ggml's two-dimensional copies name them.
struct Rows {
    std::size_t offset = 0; // In the tensor.
    std::size_t bytes = 0;
    std::size_t count = 1;
    std::size_t tensor_stride = 0;
    std::size_t data_stride = 0;
};

class Cluster {
public:
    struct Options {
        std::uint32_t ranks = 1;
        // This process's rank, and what it computes with; without both all devices are stand-ins
        // (the probe).
        collective::Group* group = nullptr;
        std::unique_ptr<LocalCompute> compute;
        // Pipeline: the last layers, and with them the logits, belong to rank 0.
        bool rank_0_last = false;
    };

    explicit Cluster(Options options);
    ~Cluster();

    Cluster(Cluster const&) = delete;
    Cluster& operator=(Cluster const&) = delete;

    // In llama.cpp's order, without the final null.
    [[nodiscard]] std::vector<ggml_backend_dev_t> devices();
    // The rank of each device in that order.
    [[nodiscard]] std::vector<std::uint32_t> ranks_in_order() const;

    // Where set_tensor's pointers may come from; null: from memory only. While it is set, local
    // reads are queued and each rank's ranges are noted.
    void set_source(FileSource const* source) { source_ = source; }

    [[nodiscard]] std::vector<WeightRead> take_reads() { return std::move(reads_); }

    [[nodiscard]] std::vector<FileRange> const& ranges(std::uint32_t rank) const {
        return ranges_[rank];
    }

    // While on, nothing is computed and nothing transferred: llama.cpp's calls only leave a trace.
    void set_rehearsal(bool on) { rehearsal_ = on; }

    // Sums over the ranks that llama.cpp has asked for: none while no layer is cut by width.
    [[nodiscard]] std::uint64_t reductions() const { return reductions_; }

    [[nodiscard]] DeviceUse use(std::uint32_t rank) const;

    // The rank whose device holds the tensor; nothing for host memory and tensors over all ranks.
    [[nodiscard]] std::optional<std::uint32_t> rank_of(ggml_tensor const* tensor) const;

    // REQUIRES: a group. Between the rehearsal and the reading of weights: LocalCompute.
    [[nodiscard]] Result<void> place_weights(std::uint64_t other_bytes);

    [[nodiscard]] LocalCompute* compute() const { return options_.compute.get(); }

    [[nodiscard]] Result<void> health() const;
    void fail(Error error);

    // ---- called by the hooks of backend.cpp

    [[nodiscard]] ggml_backend_buffer_t
    allocate(ClusterDevice& device, std::size_t bytes, ggml_backend_buffer_i const& interface);
    void release(ClusterBuffer* buffer);
    void set(ClusterDevice const& device, ggml_tensor* tensor, void const* data, Rows const& rows);
    // A result, or what the host computes further with: only rank 0 has it then.
    void get(ClusterDevice const& device, ggml_tensor const* tensor, void* data, Rows const& rows);
    void copy(
        ClusterDevice const& from,
        ClusterDevice const& to,
        ggml_tensor const* source,
        ggml_tensor* target
    );
    void fill(
        ClusterDevice const& device,
        ggml_tensor* tensor,
        std::uint8_t value,
        std::size_t offset,
        std::size_t bytes
    );
    void clear(ClusterBuffer const& buffer, std::uint8_t value);
    [[nodiscard]] ggml_status compute_graph(ClusterDevice& device, ggml_cgraph* graph);
    // `parts` by device. Always true: a false would make ggml reduce over stand-ins.
    bool all_reduce(ggml_tensor** parts);

    [[nodiscard]] std::size_t device_count() const { return devices_.size(); }

    [[nodiscard]] ggml_backend_dev_t device_at(std::size_t index) {
        return &devices_[index]->device;
    }

private:
    void note_range(std::uint32_t rank, FilePlace place, std::uint64_t bytes);
    void note_ranges(std::uint32_t rank, void const* data, Rows const& rows);
    void keep(Result<void> const& result);

    [[nodiscard]] bool quiet() const { return rehearsal_ || error_.has_value(); }

    [[nodiscard]] std::optional<std::uint32_t> own_rank() const;

    Options options_;
    ggml_backend_reg registry_{};
    std::vector<std::unique_ptr<ClusterDevice>> devices_; // In llama.cpp's order.

    FileSource const* source_ = nullptr;
    std::vector<WeightRead> reads_;
    std::vector<std::vector<FileRange>> ranges_; // By rank.

    bool rehearsal_ = false;
    std::uint64_t reductions_ = 0;
    std::vector<std::uint8_t> rows_; // Rows of a read, packed for one message.
    std::optional<Error> error_;
};

// Sets the hooks of device, buffer type and registry (backend.cpp).
void bind_hooks(ClusterDevice& device, ggml_backend_reg& registry);
void bind_hooks(ggml_backend_reg& registry, Cluster& cluster);

// The device behind a buffer type, if it is of a cluster.
[[nodiscard]] ClusterDevice* cluster_device(ggml_backend_buffer_type_t type);

} // namespace exo::engine
