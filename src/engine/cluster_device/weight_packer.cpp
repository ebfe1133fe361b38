// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_device/weight_packer.hpp"

#include "base/assert.hpp"
#include "engine/cluster_device/pages.hpp"

#include <ggml-backend-impl.h>
#include <ggml-impl.h>

#include <algorithm>
#include <string_view>

namespace exo::engine {
namespace {

// Of a model cut by tensor, a step has some hundreds; old ones are not met again.
constexpr std::size_t graphs_remembered_max = 4096;

bool is_plain_weight(ggml_tensor const* tensor, ggml_backend_buffer_type_t type) {
    // A node that was changed in an earlier step has a buffer of another type: graphs are reused.
    return tensor != nullptr && tensor->op == GGML_OP_NONE && tensor->view_src == nullptr &&
           tensor->buffer != nullptr && tensor->buffer->buft == type &&
           ggml_backend_buffer_get_usage(tensor->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS &&
           ggml_nelements(tensor) > 0;
}

bool is_product(ggml_tensor const* node) {
    return node->op == GGML_OP_MUL_MAT || node->op == GGML_OP_MUL_MAT_ID;
}

// Rows that are packed at once. ggml's own layout joins groups of rows, of 4 to 16, and knows
// nothing of other groups: so some can be packed, and their plain pages given back, before the
// next. Other layouts take a weight as a whole.
std::int64_t rows_at_once(ggml_tensor const* weight, ggml_backend_buffer_type_t type) {
    constexpr std::int64_t rows_of_a_group = 16;
    constexpr std::size_t bytes_wanted = 4u << 20;
    bool const by_rows = std::string_view(ggml_backend_buft_name(type)) == "CPU_REPACK";
    auto const groups = bytes_wanted / (rows_of_a_group * weight->nb[1]) + 1;
    auto const rows = rows_of_a_group * static_cast<std::int64_t>(groups);
    return by_rows && ggml_is_contiguous(weight) ? std::min(rows, ggml_nrows(weight))
                                                 : ggml_nrows(weight);
}

void pack_and_give_back(ggml_tensor* packed, ggml_tensor* weight, ggml_backend_buffer_type_t type) {
    auto* const plain = static_cast<std::uint8_t*>(weight->data);
    auto const all = ggml_nrows(weight);
    auto const rows = rows_at_once(weight, type);
    if (rows == all) {
        ggml_backend_tensor_set(packed, plain, 0, ggml_nbytes(weight));
        give_back_pages(plain, ggml_nbytes(weight));
        return;
    }
    auto const row_bytes = weight->nb[1];
    for (std::int64_t row = 0; row < all; row += rows) {
        auto const at = static_cast<std::size_t>(row) * row_bytes;
        ggml_tensor part = *packed;
        part.ne[1] = std::min(rows, all - row);
        part.ne[2] = part.ne[3] = 1;
        part.nb[2] = part.nb[3] = static_cast<std::size_t>(part.ne[1]) * row_bytes;
        part.data = static_cast<std::uint8_t*>(packed->data) + at;
        ggml_backend_tensor_set(&part, plain + at, 0, ggml_nbytes(&part));
        // From the beginning: a page may hold the end of one part and the start of the next.
        give_back_pages(plain, at + ggml_nbytes(&part));
    }
}

} // namespace

WeightPacker::WeightPacker(CpuCompute const& compute)
    : device_(ggml_backend_get_device(compute.backend()))
    , types_(compute.packed_types()) {}

Result<void> WeightPacker::pack(ggml_cgraph* graph, ggml_backend_buffer_type_t type) {
    if (graph->uid != 0 && graphs_done_.contains(graph->uid)) {
        return {};
    }
    // First what must stay plain: a weight whose rows are looked up, that is a second operand, or
    // of which only a part is multiplied by.
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        auto const* node = ggml_graph_node(graph, i);
        for (int s = 0; s < GGML_MAX_SRC; ++s) {
            auto const* source = node->src[s];
            if (source == nullptr || (s == 0 && is_product(node) && source->view_src == nullptr)) {
                continue;
            }
            auto const* weight = source->view_src != nullptr ? source->view_src : source;
            if (!is_plain_weight(weight, type)) {
                continue;
            }
            if (auto found = packed_.find(weight->data); found != packed_.end()) {
                return Error(
                    Errc::unsupported,
                    std::string("tensor ") + weight->name + " is multiplied by and also used by " +
                        ggml_op_name(node->op)
                );
            }
            plain_.insert(weight->data);
        }
    }
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        auto* node = ggml_graph_node(graph, i);
        if (!is_product(node) || !is_plain_weight(node->src[0], type)) {
            continue;
        }
        if (auto* better = packed(node->src[0], node)) {
            node->src[0] = better;
        }
    }
    if (graphs_done_.size() >= graphs_remembered_max) {
        graphs_done_.clear();
    }
    graphs_done_.insert(graph->uid);
    return {};
}

ggml_tensor* WeightPacker::packed(ggml_tensor* weight, ggml_tensor* product) {
    if (auto found = packed_.find(weight->data); found != packed_.end()) {
        return &found->second.tensor;
    }
    if (plain_.contains(weight->data)) {
        return nullptr;
    }
    auto* type = type_for(weight, product);
    if (type == nullptr) {
        plain_.insert(weight->data);
        return nullptr;
    }
    auto& made = packed_[weight->data];
    made.tensor = *weight;
    made.tensor.buffer = nullptr;
    made.tensor.data = nullptr;
    made.tensor.extra = nullptr;
    made.buffer.reset(
        ggml_backend_buft_alloc_buffer(type, ggml_backend_buft_get_alloc_size(type, &made.tensor))
    );
    if (!made.buffer) { // No memory for a second copy: the plain one works too.
        packed_.erase(weight->data);
        plain_.insert(weight->data);
        return nullptr;
    }
    auto* buffer = made.buffer.get();
    ggml_backend_tensor_alloc(buffer, &made.tensor, ggml_backend_buffer_get_base(buffer));
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    pack_and_give_back(&made.tensor, weight, type);
    return &made.tensor;
}

// Asked with a stand-in for the weight in an empty buffer of that type.
ggml_backend_buffer_type_t
WeightPacker::type_for(ggml_tensor const* weight, ggml_tensor const* product) const {
    for (auto* type : types_) {
        ggml_backend_buffer_ptr const empty(ggml_backend_buft_alloc_buffer(type, 0));
        ggml_tensor left = *weight;
        left.buffer = empty.get();
        left.extra = nullptr;
        ggml_tensor right = *product->src[1];
        right.buffer =
            nullptr; // It would insist on a host buffer; ours is one, and says it is not.
        ggml_tensor question = *product;
        question.src[0] = &left;
        question.src[1] = &right;
        if (ggml_backend_dev_supports_op(device_, &question)) {
            return type;
        }
    }
    return nullptr;
}

} // namespace exo::engine
