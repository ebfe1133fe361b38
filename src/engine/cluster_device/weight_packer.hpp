// SPDX-License-Identifier: Apache-2.0
//
// ggml's CPU kernels are fastest on weights in a layout of their own. A weight is brought into it
// when a graph first multiplies by it; its plain pages are given back, in ggml's own layout as it
// goes: so a few megabytes are in memory twice, in other layouts one tensor.
#pragma once

#include "base/result.hpp"
#include "engine/cluster_device/cpu_compute.hpp"

#include <ggml.h>

#include <map>
#include <set>
#include <vector>

namespace exo::engine {

class WeightPacker {
public:
    explicit WeightPacker(CpuCompute const& compute);

    // Makes the graph multiply by packed weights, where the CPU backend has such a layout. `type`
    // is the buffer type that plain weights live in. Error: unsupported, when a weight that is
    // packed already is now used in another way.
    Result<void> pack(ggml_cgraph* graph, ggml_backend_buffer_type_t type);

private:
    struct Packed {
        ggml_backend_buffer_ptr buffer;
        ggml_tensor tensor;
    };

    ggml_tensor* packed(ggml_tensor* weight, ggml_tensor* product);
    [[nodiscard]] ggml_backend_buffer_type_t
    type_for(ggml_tensor const* weight, ggml_tensor const* product) const;

    ggml_backend_dev_t device_;
    std::vector<ggml_backend_buffer_type_t> types_;
    std::map<void const*, Packed> packed_; // By the address of the plain weight.
    std::set<void const*> plain_;          // Those that must stay as they are.
    std::set<std::uint64_t> graphs_done_;  // By ggml's id: a graph that is reused needs no look.
};

} // namespace exo::engine
