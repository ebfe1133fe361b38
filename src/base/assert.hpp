// SPDX-License-Identifier: Apache-2.0
//
// EXO_ASSERT is for bugs: a condition that only our own code can break. It stays on in release.
// Bytes from a peer, a user or a disk never decide one; those are values of Result (result.hpp).
#pragma once

namespace exo {

// Prints the condition with its place and aborts.
[[noreturn]] void assertion_failed(char const* condition, char const* file, int line);

} // namespace exo

#define EXO_ASSERT(condition)                                                                      \
    ((condition) ? static_cast<void>(0) : ::exo::assertion_failed(#condition, __FILE__, __LINE__))
