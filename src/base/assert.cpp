// SPDX-License-Identifier: Apache-2.0
#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace exo {

void assertion_failed(char const* condition, char const* file, int line) {
    std::fprintf(stderr, "exo: bug: %s:%d: assertion failed: %s\n", file, line, condition);
    std::fflush(stderr);
    std::abort();
}

} // namespace exo
