// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_device/gpu_plan.hpp"

#include "engine/cluster_device/tensor_layout.hpp"

#include <ggml-impl.h>

#include <algorithm>
#include <array>
#include <unordered_map>

namespace exo::engine {
namespace {

ByteRange range_of(ggml_tensor const* tensor) {
    return ByteRange::of(tensor->data, ggml_nbytes(tensor));
}

bool is_view_only(ggml_tensor const* node) {
    return node->op == GGML_OP_NONE || node->op == GGML_OP_VIEW || node->op == GGML_OP_RESHAPE ||
           node->op == GGML_OP_PERMUTE || node->op == GGML_OP_TRANSPOSE;
}

void make_leaf(ggml_tensor& tensor) {
    tensor.op = GGML_OP_NONE;
    std::ranges::fill(tensor.src, nullptr);
}

// One plan in the making.
class Making {
public:
    Making(ggml_backend_dev_t gpu, GpuMemory const& memory, bool may_use_scratch)
        : gpu_(gpu)
        , memory_(memory)
        , may_use_scratch_(may_use_scratch)
        , plan_(std::make_unique<GraphPlan>()) {}

    void add(ggml_tensor* node, std::int32_t use_count) {
        if (ggml_is_empty(node)) {
            return;
        }
        if (is_view_only(node)) {
            if (!plan_->runs.empty() && plan_->runs.back().gpu) {
                if (auto* view = mirror_node(node)) {
                    append(true, view, use_count); // Some fusions look for them.
                }
            }
            return;
        }
        // Nothing computes this part: the rank's slice of it is empty.
        if ((node->flags & GGML_TENSOR_FLAG_COMPUTE) == 0) {
            return;
        }
        if (!add_to_gpu(node, use_count)) {
            add_to_cpu(node, use_count);
        }
    }

    [[nodiscard]] std::size_t scratch_bytes() const { return scratch_bytes_; }

    // REQUIRES: scratch memory of that size, if that is not 0.
    [[nodiscard]] std::unique_ptr<GraphPlan> finish(ggml_backend_buffer_t scratch) {
        for (auto* tensor : in_scratch_) {
            tensor->buffer = scratch;
            tensor->data = ggml_backend_buffer_get_base(scratch);
        }
        make_graphs();
        return std::move(plan_);
    }

private:
    ggml_tensor* keep(ggml_tensor const& tensor) { return &plan_->mirrors.emplace_back(tensor); }

    // The tensor's mirror: the node of an earlier run, or a leaf. Null when it is not on the GPU.
    ggml_tensor* mirror(ggml_tensor const* tensor) {
        if (auto const found = mirrors_.find(tensor); found != mirrors_.end()) {
            return found->second;
        }
        auto* made = place(tensor);
        if (made != nullptr) {
            make_leaf(*made);
            mirrors_.emplace(tensor, made);
        }
        return made;
    }

    ggml_tensor* place(ggml_tensor const* tensor) {
        if (ggml_is_empty(tensor) || tensor->data == nullptr || !memory_.holds(range_of(tensor))) {
            return nullptr;
        }
        ggml_tensor copy = *tensor;
        memory_.place(copy);
        if (tensor->view_src != nullptr) {
            copy.view_src = mirror(tensor->view_src);
            if (copy.view_src == nullptr) {
                return nullptr;
            }
            copy.view_offs = range_of(tensor).begin - range_of(tensor->view_src).begin;
        }
        return keep(copy);
    }

    // With the mirrors of what it is made from. Null when one of them is not on the GPU.
    ggml_tensor* mirror_node(ggml_tensor const* node) {
        std::array<ggml_tensor*, GGML_MAX_SRC> sources{};
        for (std::size_t i = 0; i < sources.size(); ++i) {
            if (node->src[i] != nullptr && (sources[i] = mirror(node->src[i])) == nullptr) {
                return nullptr;
            }
        }
        auto* made = place(node);
        if (made != nullptr) {
            std::ranges::copy(sources, made->src);
            mirrors_[node] = made;
        }
        return made;
    }

    bool add_to_gpu(ggml_tensor* node, std::int32_t use_count) {
        auto* made = mirror_node(node);
        if (made == nullptr) {
            return false;
        }
        if (!ggml_backend_dev_supports_op(gpu_, made)) {
            make_leaf(*made); // Its bytes will be there, from the CPU.
            return false;
        }
        auto const need = ggml_backend_buft_get_alloc_size(memory_.type(), made);
        if (need <= device_alloc_bytes(node)) {
            append(true, made, use_count);
            return true;
        }
        return add_by_scratch(node, made, need, use_count);
    }

    // A kernel that works in memory behind its result computes in scratch memory, from where the
    // result is copied to its place.
    bool add_by_scratch(
        ggml_tensor const* node, ggml_tensor* made, std::size_t need, std::int32_t use_count
    ) {
        auto* const target = keep(*made);
        make_leaf(*target);
        auto* const result = keep(*target);
        result->op = GGML_OP_CPY;
        std::ranges::fill(result->op_params, 0);
        result->src[0] = made;
        result->src[1] = target;
        if (!may_use_scratch_ || node->view_src != nullptr ||
            !ggml_backend_dev_supports_op(gpu_, result)) {
            make_leaf(*made);
            return false;
        }
        in_scratch_.push_back(made);
        scratch_bytes_ = std::max(scratch_bytes_, need);
        append(true, made, 1);
        append(true, result, use_count);
        mirrors_[node] = result;
        return true;
    }

    void add_to_cpu(ggml_tensor* node, std::int32_t use_count) {
        append(false, node, use_count);
        auto& run = plan_->runs.back();
        for (auto const* source : node->src) {
            if (source != nullptr) {
                fetch(run, range_of(source));
            }
        }
        if (node->view_src != nullptr) { // It may leave some of these bytes as they are.
            fetch(run, range_of(node));
        }
        run.written.add(range_of(node));
    }

    void fetch(GraphRun& run, ByteRange range) const {
        if (memory_.touches(range) && !run.written.covers(range)) {
            run.fetched.add(range);
        }
    }

    void append(bool gpu, ggml_tensor* node, std::int32_t use_count) {
        if (plan_->runs.empty() || plan_->runs.back().gpu != gpu) {
            plan_->runs.push_back({.gpu = gpu});
        }
        plan_->runs.back().nodes.push_back(node);
        plan_->runs.back().use_counts.push_back(use_count);
    }

    void make_graphs() {
        std::size_t bytes = 0;
        for (auto const& run : plan_->runs) {
            bytes += ggml_graph_overhead_custom(run.nodes.size(), /*grads=*/false);
        }
        plan_->graphs.reset(ggml_init({.mem_size = bytes, .mem_buffer = nullptr, .no_alloc = true})
        );
        for (auto& run : plan_->runs) {
            auto* graph =
                ggml_new_graph_custom(plan_->graphs.get(), run.nodes.size(), /*grads=*/false);
            graph->n_nodes = static_cast<int>(run.nodes.size());
            graph->uid = ggml_graph_next_uid();
            for (std::size_t i = 0; i < run.nodes.size(); ++i) {
                graph->nodes[i] = run.nodes[i];
                auto const slot = ggml_hash_find_or_insert(&graph->visited_hash_set, run.nodes[i]);
                graph->use_counts[slot] = run.use_counts[i];
            }
            run.graph = graph;
        }
    }

    ggml_backend_dev_t gpu_;
    GpuMemory const& memory_;
    bool may_use_scratch_;
    std::unique_ptr<GraphPlan> plan_;
    std::unordered_map<ggml_tensor const*, ggml_tensor*> mirrors_;
    std::vector<ggml_tensor*> in_scratch_;
    std::size_t scratch_bytes_ = 0;
};

} // namespace

GraphPlanner::GraphPlanner(ggml_backend_dev_t gpu, GpuMemory const& memory, Scratch scratch)
    : gpu_(gpu)
    , memory_(memory)
    , scratch_(std::move(scratch)) {}

std::unique_ptr<GraphPlan> GraphPlanner::make(ggml_cgraph* graph) const {
    auto const make_with = [&](bool may_use_scratch) {
        Making making(gpu_, memory_, may_use_scratch);
        for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
            making.add(ggml_graph_node(graph, i), ggml_node_get_use_count(graph, i));
        }
        return making;
    };
    auto making = make_with(true);
    if (making.scratch_bytes() == 0) {
        return making.finish(nullptr);
    }
    if (auto* buffer = scratch_(making.scratch_bytes())) {
        return making.finish(buffer);
    }
    return make_with(false).finish(nullptr); // Those nodes are the CPU's, then.
}

bool could_compute(
    ggml_backend_dev_t gpu, ggml_tensor const* node, ggml_backend_buffer_t anywhere
) {
    std::array<ggml_tensor, GGML_MAX_SRC> sources;
    ggml_tensor question = *node;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        if (node->src[i] != nullptr) {
            sources[i] = *node->src[i];
            sources[i].buffer = anywhere;
            sources[i].view_src = nullptr;
            question.src[i] = &sources[i];
        }
    }
    question.buffer = anywhere;
    question.view_src = nullptr;
    return ggml_backend_dev_supports_op(gpu, &question);
}

} // namespace exo::engine
