// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_device/gpu_compute.hpp"

#include "base/assert.hpp"
#include "base/log.hpp"
#include "engine/cluster_device/pages.hpp"
#include "engine/cluster_device/tensor_layout.hpp"

#include <fmt/core.h>
#include <ggml-impl.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <optional>

namespace exo::engine {
namespace {

// What a backend takes of its GPU besides our buffers: libraries' workspaces, pools, compiled
// kernels. llama.cpp leaves a gigabyte; a small GPU could not spare that.
constexpr std::uint64_t reserve_bytes_max = 512u << 20;
constexpr std::uint64_t reserve_part = 8; // And of the GPU's memory not more than an eighth.

// A model cut by tensor has some hundreds of graphs, two a layer. Older ones are not met again:
// llama.cpp gives a graph that it builds anew another id.
constexpr std::size_t plans_max = 1024;

bool is_weight(ggml_tensor const* tensor) {
    return tensor->op == GGML_OP_NONE && tensor->view_src == nullptr && tensor->buffer != nullptr &&
           !ggml_is_empty(tensor) &&
           ggml_backend_buffer_get_usage(tensor->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

double mib(std::uint64_t bytes) {
    return static_cast<double>(bytes) / (1u << 20);
}

} // namespace

template <class Work>
Result<void> GpuCompute::guarded(Work const& work) {
    try {
        return work();
    } catch (std::exception const& error) {
        return Error(
            Errc::internal,
            fmt::format("{} failed: {}", ggml_backend_dev_name(device_), error.what())
        );
    }
}

Result<std::unique_ptr<GpuCompute>>
GpuCompute::make(ggml_backend_dev_t device, std::unique_ptr<CpuCompute> cpu) {
    std::string const name(ggml_backend_dev_name(device));
    ggml_backend_ptr gpu;
    try {
        gpu.reset(ggml_backend_dev_init(device, nullptr));
    } catch (std::exception const& error) {
        return Error(Errc::unsupported, fmt::format("{} does not start: {}", name, error.what()));
    }
    if (!gpu) {
        return Error(Errc::unsupported, fmt::format("{} does not start", name));
    }
    auto* const type = ggml_backend_dev_buffer_type(device);
    if (auto const alignment = ggml_backend_buft_get_alignment(type);
        device_alignment_bytes % alignment != 0) {
        return Error(
            Errc::unsupported, fmt::format("{} wants tensors aligned to {} bytes", name, alignment)
        );
    }
    return std::unique_ptr<GpuCompute>(new GpuCompute(device, std::move(gpu), std::move(cpu)));
}

GpuCompute::GpuCompute(
    ggml_backend_dev_t device, ggml_backend_ptr gpu, std::unique_ptr<CpuCompute> cpu
)
    : device_(device)
    , gpu_(std::move(gpu))
    , cpu_(std::move(cpu))
    , memory_(ggml_backend_dev_buffer_type(device))
    , anywhere_(ggml_backend_buft_alloc_buffer(memory_.type(), 0))
    , planner_(device, memory_, [this](std::size_t bytes) { return scratch(bytes); }) {}

GpuCompute::~GpuCompute() {
    (void)guarded([this]() -> Result<void> {
        wait_for_gpu();
        return {};
    });
}

std::string GpuCompute::describe() const {
    auto text = fmt::format(
        "{} ({})", ggml_backend_dev_name(device_), ggml_backend_dev_description(device_)
    );
    if (!placed_) {
        return text;
    }
    text += fmt::format(": {:.0f} MiB of weights in its memory", mib(homes_.gpu_bytes));
    if (homes_.host_bytes_without_room > 0) {
        text += fmt::format(
            "; {:.0f} MiB that it has no room for with the CPU", mib(homes_.host_bytes_without_room)
        );
    }
    if (homes_.host_bytes_without_kernel > 0) {
        text += fmt::format(
            "; {:.0f} MiB that it cannot compute with, with the CPU",
            mib(homes_.host_bytes_without_kernel)
        );
    }
    std::uint64_t others = 0;
    for (auto const& [_, bytes] : in_host_) {
        others += bytes;
    }
    if (others > 0) {
        text += fmt::format("; {:.0f} MiB of cache and activations with the CPU", mib(others));
    }
    return text;
}

void GpuCompute::wait_for_gpu() {
    if (busy_) {
        ggml_backend_synchronize(gpu_.get());
        busy_ = false;
    }
}

void GpuCompute::forget_plans() {
    wait_for_gpu();
    plans_.clear();
}

// ---- memory

void GpuCompute::add_memory(void* pages, std::size_t bytes) {
    if (!placed_) { // Weights, which place_weights() looks at, or the rehearsal's.
        return;
    }
    auto const range = ByteRange::of(pages, bytes);
    auto const added = guarded([&]() -> Result<void> {
        forget_plans();
        if (!memory_.add(range)) {
            return Error(Errc::limit, "no room");
        }
        return {};
    });
    if (!added) {
        in_host_.emplace(pages, bytes);
        log::warning(
            "engine",
            "{}: {:.0f} MiB of cache or activations stay in host memory: {}",
            ggml_backend_dev_name(device_),
            mib(bytes),
            added.error().text()
        );
    }
}

void GpuCompute::remove_memory(void* pages, std::size_t bytes) {
    in_host_.erase(pages);
    auto const range = ByteRange::of(pages, bytes);
    if (!memory_.touches(range)) {
        return;
    }
    (void)guarded([&]() -> Result<void> {
        forget_plans();
        memory_.remove(range);
        return {};
    });
}

void GpuCompute::observe(ggml_cgraph* graph) {
    if (placed_) {
        return;
    }
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        auto const* node = ggml_graph_node(graph, i);
        std::optional<bool> can; // Not asked of nodes without weights.
        for (auto const* source : node->src) {
            if (source == nullptr) {
                continue;
            }
            auto const* weight = source->view_src != nullptr ? source->view_src : source;
            if (!is_weight(weight)) {
                continue;
            }
            can = can.value_or(could_compute(device_, node, anywhere_.get()));
            auto const memory = ByteRange::of(weight->data, device_alloc_bytes(weight));
            auto& use = weights_.try_emplace(memory.begin, WeightUse{memory, true}).first->second;
            use.gpu_can = use.gpu_can && *can;
        }
    }
}

Result<void> GpuCompute::place_weights(std::uint64_t other_bytes) {
    EXO_ASSERT(!placed_);
    placed_ = true;
    std::size_t free = 0;
    std::size_t total = 0;
    ggml_backend_dev_memory(device_, &free, &total);
    bool const says_nothing = total == 0;
    auto const taken =
        other_bytes + std::min<std::uint64_t>(reserve_bytes_max, total / reserve_part);
    auto const left = free > taken ? free - taken : 0;
    std::vector<WeightUse> weights;
    for (auto const& [_, use] : weights_) {
        weights.push_back(use);
    }
    homes_ = choose_weight_homes(
        std::move(weights),
        {.bytes = says_nothing ? std::numeric_limits<std::uint64_t>::max() : left,
         .buffer_bytes_max = ggml_backend_buft_get_max_size(memory_.type())}
    );
    return guarded([this]() -> Result<void> {
        for (auto const& range : homes_.on_gpu) {
            if (!memory_.add(range)) { // It said that there is more than there was.
                homes_.host_bytes_without_room += range.size();
            }
        }
        homes_.gpu_bytes = memory_.bytes();
        for (auto const& [begin, end] : early_.all()) {
            memory_.upload({begin, end});
        }
        early_.clear();
        return {};
    });
}

Result<void> GpuCompute::landed(WeightRead const& read) {
    std::scoped_lock const lock(loading_);
    return guarded([&]() -> Result<void> {
        bool const dense = read.count == 1 || read.memory_stride == read.bytes;
        auto const* const to = static_cast<std::uint8_t const*>(read.to);
        auto const rows = dense ? 1 : read.count;
        auto const row_bytes = dense ? read.bytes * read.count : read.bytes;
        for (std::size_t row = 0; row < rows; ++row) {
            auto const range = ByteRange::of(to + row * read.memory_stride, row_bytes);
            if (memory_.holds(range)) {
                memory_.upload(range);
                give_back_pages(range.data(), range.size());
            }
        }
        return {};
    });
}

Result<void> GpuCompute::to_host(void const* at, std::size_t bytes) {
    return guarded([&]() -> Result<void> {
        auto const range = ByteRange::of(at, bytes);
        if (memory_.touches(range)) {
            wait_for_gpu();
            memory_.download(range);
        }
        return {};
    });
}

Result<void> GpuCompute::from_host(void const* at, std::size_t bytes) {
    return guarded([&]() -> Result<void> {
        auto const range = ByteRange::of(at, bytes);
        if (!placed_) {
            early_.add(range);
        } else if (memory_.touches(range)) {
            wait_for_gpu(); // It may still read what was there.
            memory_.upload(range);
        }
        return {};
    });
}

Result<void> GpuCompute::cleared(void* pages, std::size_t bytes, std::uint8_t value) {
    return guarded([&]() -> Result<void> {
        auto const range = ByteRange::of(pages, bytes);
        if (memory_.touches(range)) {
            wait_for_gpu();
            memory_.fill(range, value);
        }
        return {};
    });
}

// ---- computing

ggml_backend_buffer_t GpuCompute::scratch(std::size_t bytes) {
    if (!scratch_ || ggml_backend_buffer_get_size(scratch_.get()) < bytes) {
        forget_plans(); // They point into the smaller one.
        scratch_.reset();
        scratch_.reset(ggml_backend_buft_alloc_buffer(memory_.type(), bytes));
        if (scratch_) {
            ggml_backend_buffer_set_usage(scratch_.get(), GGML_BACKEND_BUFFER_USAGE_COMPUTE);
        }
    }
    return scratch_.get();
}

void GpuCompute::remove_least_used_plan() {
    auto const oldest =
        std::ranges::min_element(plans_, {}, [](auto const& entry) { return entry.second.used; });
    wait_for_gpu();
    plans_.erase(oldest);
}

// The CPU's part of the graph gets weights in the CPU's layout, except for those of the GPU.
Result<void> GpuCompute::pack_for_cpu(GraphPlan const& plan, ggml_backend_buffer_type_t type) {
    std::deque<ggml_tensor> plain;
    std::vector<ggml_tensor*> nodes;
    for (auto const& run : plan.runs) {
        if (run.gpu) {
            continue;
        }
        for (auto* node : run.nodes) {
            auto const* left = node->src[0];
            if (left != nullptr && memory_.touches(ByteRange::of(left->data, ggml_nbytes(left)))) {
                node = &plain.emplace_back(*node);
                node->op = GGML_OP_NONE; // Uses all of its sources as they are.
            }
            nodes.push_back(node);
        }
    }
    if (nodes.empty()) {
        return {};
    }
    ggml_cgraph graph{};
    graph.n_nodes = static_cast<int>(nodes.size());
    graph.nodes = nodes.data();
    return cpu_->pack(&graph, type);
}

Result<void> GpuCompute::run(GraphPlan const& plan) {
    for (auto const& run : plan.runs) {
        if (run.gpu) {
            auto const status = ggml_backend_graph_compute_async(gpu_.get(), run.graph);
            busy_ = true;
            if (status != GGML_STATUS_SUCCESS) {
                return Error(
                    Errc::internal,
                    fmt::format(
                        "{}: graph failed: {}",
                        ggml_backend_dev_name(device_),
                        ggml_status_to_string(status)
                    )
                );
            }
            continue;
        }
        wait_for_gpu();
        for (auto const& [begin, end] : run.fetched.all()) {
            memory_.download({begin, end});
        }
        EXO_TRY(cpu_->compute_packed(run.graph));
        for (auto const& [begin, end] : run.written.all()) {
            memory_.upload({begin, end});
        }
    }
    return {};
}

Result<void> GpuCompute::compute(ggml_cgraph* graph, ggml_backend_buffer_type_t type) {
    return guarded([&]() -> Result<void> {
        ++graphs_;
        if (auto const found = plans_.find(graph->uid); graph->uid != 0 && found != plans_.end()) {
            found->second.used = graphs_;
            return run(*found->second.plan);
        }
        auto plan = planner_.make(graph);
        EXO_TRY(pack_for_cpu(*plan, type));
        if (graph->uid == 0) { // Not to be met again.
            auto const done = run(*plan);
            wait_for_gpu();
            return done;
        }
        if (plans_.size() >= plans_max) {
            remove_least_used_plan();
        }
        auto const& kept = plans_[graph->uid] = {std::move(plan), graphs_};
        return run(*kept.plan);
    });
}

} // namespace exo::engine
