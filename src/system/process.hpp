// SPDX-License-Identifier: Apache-2.0
//
// What other processes of this machine use.
#pragma once

#include <cstdint>

namespace exo::system {

// Memory of the process that is its own: resident, not shared with others (a file that it has
// mapped can be dropped at any time). 0 if it is gone or cannot be looked at.
[[nodiscard]] std::uint64_t process_memory_bytes(int pid);

} // namespace exo::system
