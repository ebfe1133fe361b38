// SPDX-License-Identifier: Apache-2.0
//
// What this machine is: name, processor, operating system, memory, disk. Each call asks the
// operating system anew and takes well under a millisecond, so the network thread may make it.
// Nothing here fails: what cannot be found out is "Unknown" or 0.
#pragma once

#include "model/node_info.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

namespace exo::system {

// Kept free for the rest of the machine: a twentieth of the memory, at most this.
constexpr std::uint64_t reserve_bytes_max = std::uint64_t{1} << 30;

struct MemoryOptions {
    std::optional<std::uint64_t> limit_bytes; // --memory-limit: all that exo may use here.
    std::uint64_t used_bytes = 0;             // What exo's runners use of that now.
};

// ram_available counts reclaimable cache as free and is bounded by the cgroup, the limit and the
// reserve.
[[nodiscard]] model::NodeMemory memory(MemoryOptions const& options = {});

[[nodiscard]] model::NodeIdentity identity();

// Of the file system that holds `path` or, while it does not exist, the nearest folder above it.
[[nodiscard]] model::NodeDisk disk(std::filesystem::path const& path);

// Cores, not hardware threads, that this process may run on; at least 1.
[[nodiscard]] unsigned physical_cores();

} // namespace exo::system
