// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_device/weight_homes.hpp"

#include "engine/cluster_device/tensor_layout.hpp"

#include <algorithm>

namespace exo::engine {

WeightHomes choose_weight_homes(std::vector<WeightUse> weights, GpuRoom const& room) {
    std::ranges::sort(weights, {}, [](WeightUse const& weight) { return weight.memory.begin; });
    WeightHomes homes;
    bool full = false;
    for (auto const& [memory, gpu_can] : weights) {
        if (!gpu_can) {
            homes.host_bytes_without_kernel += memory.size();
            continue;
        }
        bool const fits_alone = memory.size() <= room.bytes;
        full = full || (fits_alone && homes.gpu_bytes + memory.size() > room.bytes);
        if (full || !fits_alone) {
            homes.host_bytes_without_room += memory.size();
            continue;
        }
        auto* const last = homes.on_gpu.empty() ? nullptr : &homes.on_gpu.back();
        // Less than the alignment lies between neighbours: more is a weight that stays.
        if (last != nullptr && memory.begin >= last->end &&
            memory.begin - last->end < device_alignment_bytes &&
            memory.end - last->begin <= room.buffer_bytes_max) {
            last->end = memory.end;
        } else {
            homes.on_gpu.push_back(memory);
        }
        homes.gpu_bytes += memory.size();
    }
    return homes;
}

} // namespace exo::engine
