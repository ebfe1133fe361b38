// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_device/cpu_compute.hpp"

#include "base/assert.hpp"
#include "engine/cluster_device/backend_function.hpp"
#include "engine/cluster_device/weight_packer.hpp"

#include <ggml-cpu.h>

namespace exo::engine {
namespace {

// How long idle threads poll for the next graph before they sleep, in ggml's unit: about 1 ms,
// which is longer than an exchange with other ranks in a graph, and short enough not to take a core
// from another rank of this machine.
constexpr std::uint32_t idle_poll = 1;

template <class Function>
Function* function(ggml_backend_t backend, char const* name) {
    return backend_function<Function>(ggml_backend_get_device(backend), name);
}

} // namespace

CpuCompute::CpuCompute() = default;

Result<std::unique_ptr<CpuCompute>> CpuCompute::make(std::uint32_t threads) {
    EXO_ASSERT(threads > 0);
    auto* backend = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr);
    if (backend == nullptr) {
        return Error(Errc::unsupported, "ggml has no CPU backend for this machine");
    }
    std::unique_ptr<CpuCompute> made(new CpuCompute);
    made->backend_.reset(backend);
    auto const count = static_cast<int>(threads);
    if (auto* set = function<void(ggml_backend_t, int)>(backend, "ggml_backend_set_n_threads")) {
        set(backend, count);
    }
    // Without a pool, ggml starts its threads anew for each graph: in tensor mode several dozen
    // times a token.
    auto* make_pool = function<decltype(ggml_threadpool_new)>(backend, "ggml_threadpool_new");
    auto* set_pool = function<decltype(ggml_backend_cpu_set_threadpool)>(
        backend, "ggml_backend_cpu_set_threadpool"
    );
    if (threads > 1 && make_pool != nullptr && set_pool != nullptr) {
        auto parameters = ggml_threadpool_params_default(count);
        parameters.poll = idle_poll;
        made->threads_ = make_pool(&parameters);
        set_pool(backend, made->threads_);
    }
    made->packer_ = std::make_unique<WeightPacker>(*made);
    return made;
}

CpuCompute::~CpuCompute() {
    packer_.reset(); // Its buffers belong to the backend.
    if (threads_ != nullptr) {
        auto* free_pool =
            function<decltype(ggml_threadpool_free)>(backend_.get(), "ggml_threadpool_free");
        backend_.reset();
        free_pool(threads_);
    }
}

Result<void> CpuCompute::compute(ggml_cgraph* graph, ggml_backend_buffer_type_t type) {
    EXO_TRY(pack(graph, type));
    return compute_packed(graph);
}

Result<void> CpuCompute::pack(ggml_cgraph* graph, ggml_backend_buffer_type_t type) {
    return packer_->pack(graph, type);
}

Result<void> CpuCompute::compute_packed(ggml_cgraph* graph) {
    auto const status = ggml_backend_graph_compute(backend_.get(), graph);
    if (status != GGML_STATUS_SUCCESS) {
        return Error(Errc::internal, std::string("graph failed: ") + ggml_status_to_string(status));
    }
    return {};
}

std::vector<ggml_backend_buffer_type_t> CpuCompute::packed_types() const {
    std::vector<ggml_backend_buffer_type_t> types;
    auto* list = function<ggml_backend_buffer_type_t*(ggml_backend_dev_t)>(
        backend_.get(), "ggml_backend_dev_get_extra_bufts"
    );
    auto* type = list != nullptr ? list(ggml_backend_get_device(backend_.get())) : nullptr;
    for (; type != nullptr && *type != nullptr; ++type) {
        types.push_back(*type);
    }
    return types;
}

} // namespace exo::engine
