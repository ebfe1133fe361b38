// SPDX-License-Identifier: Apache-2.0
#include "system/process.hpp"

#include <fstream>
#include <string>
#include <unistd.h>

namespace exo::system {

std::uint64_t process_memory_bytes(int pid) {
    // proc(5): size, resident, shared, ... in pages. Without /proc (macOS) there is no such file.
    std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
    std::uint64_t size = 0;
    std::uint64_t resident = 0;
    std::uint64_t shared = 0;
    if (!(file >> size >> resident >> shared) || shared > resident) {
        return 0;
    }
    return (resident - shared) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

} // namespace exo::system
