// SPDX-License-Identifier: Apache-2.0
//
// The pure half of machine.hpp: what the files of Linux say.
#pragma once

#include "model/node_info.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exo::system {

// /proc/meminfo. Without MemAvailable (kernels before 3.14): free, buffers and cache.
[[nodiscard]] model::NodeMemory parse_meminfo(std::string_view text);

// /proc/self/cgroup: where this process is in the unified hierarchy (v2) and in the memory
// controller's own (v1). Empty when it says nothing of it.
struct CgroupPaths {
    std::string unified;
    std::string memory;

    bool operator==(CgroupPaths const&) const = default;
};

[[nodiscard]] CgroupPaths parse_proc_cgroup(std::string_view text);

// memory.max or memory.limit_in_bytes: nothing for "max" and for the huge number that v1 writes
// when there is no limit.
[[nodiscard]] std::optional<std::uint64_t> parse_cgroup_limit(std::string_view text);

// The number after `key` in lines of "key number" (memory.stat).
[[nodiscard]] std::optional<std::uint64_t>
parse_stat_field(std::string_view text, std::string_view key);

// What a cgroup leaves: the limit less what is used and cannot be reclaimed.
struct CgroupMemory {
    std::uint64_t limit_bytes = 0;
    std::uint64_t used_bytes = 0;
    std::uint64_t reclaimable_bytes = 0; // Inactive file pages.
};

// `memory` bounded by a cgroup; the smaller of machine and cgroup is the total.
[[nodiscard]] model::NodeMemory bound_by(model::NodeMemory memory, CgroupMemory const& cgroup);

// The value of NAME=value or NAME="value" in /etc/os-release.
[[nodiscard]] std::string parse_os_release(std::string_view text, std::string_view name);

// The processor's name in /proc/cpuinfo, for x86 and ARM.
[[nodiscard]] std::string parse_cpu_model(std::string_view text);

// Different (physical id, core id) pairs in /proc/cpuinfo; 0 when it does not say.
[[nodiscard]] unsigned parse_physical_cores(std::string_view text);

} // namespace exo::system
