// SPDX-License-Identifier: Apache-2.0
//
// Memory of this machine. Linux: /proc/meminfo, bounded by every cgroup above this process (a
// container's limit is often on a parent). macOS: sysctl and the Mach host statistics; this part
// was written without a Mac at hand and is untried.
#include "system/machine.hpp"
#include "system/parse.hpp"
#include "system/read.hpp"

#include <algorithm>
#include <string>

#ifdef __APPLE__
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

namespace exo::system {
namespace {

#ifdef __APPLE__

model::NodeMemory machine_memory() {
    model::NodeMemory memory;
    std::uint64_t total = 0;
    std::size_t size = sizeof total;
    if (sysctlbyname("hw.memsize", &total, &size, nullptr, 0) == 0) {
        memory.ram_total.in_bytes = total;
    }
    mach_port_t const host = mach_host_self();
    vm_size_t page_bytes = 0;
    vm_statistics64_data_t pages{};
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    if (host_page_size(host, &page_bytes) == KERN_SUCCESS &&
        host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&pages), &count) ==
            KERN_SUCCESS) {
        // Free and cached pages: what Activity Monitor does not call used.
        std::uint64_t const free_pages = std::uint64_t{pages.free_count} + pages.inactive_count +
                                         pages.purgeable_count + pages.speculative_count;
        memory.ram_available.in_bytes = std::min(free_pages * page_bytes, total);
    }
    xsw_usage swap{};
    size = sizeof swap;
    if (sysctlbyname("vm.swapusage", &swap, &size, nullptr, 0) == 0) {
        memory.swap_total.in_bytes = swap.xsu_total;
        memory.swap_available.in_bytes = swap.xsu_avail;
    }
    return memory;
}

#else

struct CgroupFiles {
    std::string mount;
    char const* limit;
    char const* usage;
    char const* reclaimable; // In memory.stat
};

CgroupFiles const unified_files{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
CgroupFiles const memory_files{
    "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
};

// Each group from that of this process up to the root can have a limit.
model::NodeMemory
bound_by_groups(model::NodeMemory memory, CgroupFiles const& files, std::string group) {
    constexpr int groups_max = 64;
    for (int i = 0; i < groups_max; ++i) {
        auto const folder = files.mount + group + "/";
        if (auto const limit = parse_cgroup_limit(read_small(folder + files.limit))) {
            CgroupMemory const cgroup{
                .limit_bytes = *limit,
                .used_bytes = parse_cgroup_limit(read_small(folder + files.usage)).value_or(0),
                .reclaimable_bytes =
                    parse_stat_field(read_small(folder + "memory.stat"), files.reclaimable)
                        .value_or(0)
            };
            memory = bound_by(memory, cgroup);
        }
        if (group.empty()) {
            break;
        }
        group.erase(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
    }
    return memory;
}

model::NodeMemory machine_memory() {
    auto memory = parse_meminfo(read_small("/proc/meminfo"));
    auto const groups = parse_proc_cgroup(read_small("/proc/self/cgroup"));
    if (!groups.memory.empty()) {
        memory = bound_by_groups(memory, memory_files, groups.memory);
    }
    if (!groups.unified.empty()) {
        memory = bound_by_groups(memory, unified_files, groups.unified);
    }
    return memory;
}

#endif

} // namespace

model::NodeMemory memory(MemoryOptions const& options) {
    auto memory = machine_memory();
    std::uint64_t& available = memory.ram_available.in_bytes;
    available -= std::min(available, std::min(memory.ram_total.in_bytes / 20, reserve_bytes_max));
    if (options.limit_bytes) {
        std::uint64_t const used = std::min(options.used_bytes, *options.limit_bytes);
        available = std::min(available, *options.limit_bytes - used);
    }
    return memory;
}

} // namespace exo::system
