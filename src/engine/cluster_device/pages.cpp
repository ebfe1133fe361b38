// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_device/pages.hpp"

#include <algorithm>
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

namespace exo::engine {

std::size_t page_bytes() {
    return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t whole_pages(std::size_t bytes) {
    auto const page = page_bytes();
    return std::max(page, (bytes + page - 1) / page * page);
}

void give_back_pages(void* at, std::size_t bytes) {
    auto const page = page_bytes();
    auto const start = reinterpret_cast<std::uintptr_t>(at);
    auto const first = (start + page - 1) / page * page;
    auto const last = (start + bytes) / page * page;
    if (last > first) {
        madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
    }
}

} // namespace exo::engine
