// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"
#include "engine/cluster_device/gpu_compute.hpp"

#include <fmt/core.h>

namespace exo::engine {
namespace {

bool is_gpu(ggml_backend_dev_t device) {
    auto const type = ggml_backend_dev_type(device);
    return type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU;
}

std::vector<ggml_backend_dev_t> gpus() {
    std::vector<ggml_backend_dev_t> list;
    for (std::size_t i = 0; i < ggml_backend_dev_count(); ++i) {
        if (auto* device = ggml_backend_dev_get(i); is_gpu(device)) {
            list.push_back(device);
        }
    }
    return list;
}

// One with memory of its own before one without, then by the size of it. Null when there is none.
ggml_backend_dev_t best_gpu() {
    ggml_backend_dev_t best = nullptr;
    std::pair<bool, std::size_t> most;
    for (auto* device : gpus()) {
        std::size_t free = 0;
        std::size_t total = 0;
        ggml_backend_dev_memory(device, &free, &total);
        std::pair const own(ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_GPU, total);
        if (best == nullptr || own > most) {
            best = device;
            most = own;
        }
    }
    return best;
}

Error unknown_device(std::string const& name) {
    std::string known = "auto, cpu";
    for (auto* device : gpus()) {
        known += fmt::format(", {}", ggml_backend_dev_name(device));
    }
    return {
        Errc::not_found, fmt::format("no device '{}' on this machine; there is: {}", name, known)
    };
}

} // namespace

Result<std::unique_ptr<LocalCompute>> make_local_compute(ComputeOptions const& options) {
    auto cpu = CpuCompute::make(options.threads);
    if (!cpu) {
        return cpu.error();
    }
    bool const any = options.device == "auto";
    ggml_backend_dev_t gpu = nullptr;
    if (any) {
        gpu = best_gpu();
    } else if (options.device != "cpu") {
        gpu = ggml_backend_dev_by_name(options.device.c_str());
        if (gpu == nullptr || !is_gpu(gpu)) {
            return unknown_device(options.device);
        }
    }
    if (gpu == nullptr) {
        return std::unique_ptr<LocalCompute>(std::move(*cpu));
    }
    auto made = GpuCompute::make(gpu, std::move(*cpu));
    if (made) {
        return std::unique_ptr<LocalCompute>(std::move(*made));
    }
    if (!any) {
        return made.error();
    }
    log::warning("engine", "{}; the CPU computes", made.error().text());
    return make_local_compute({.device = "cpu", .threads = options.threads});
}

} // namespace exo::engine
