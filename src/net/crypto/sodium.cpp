// SPDX-License-Identifier: Apache-2.0
#include "net/crypto/sodium.hpp"

#include "base/assert.hpp"

#include <sodium.h>

namespace exo::net {

void ensure_sodium() {
    static bool const started = sodium_init() >= 0;
    EXO_ASSERT(started); // It fails only without a source of random numbers.
}

} // namespace exo::net
