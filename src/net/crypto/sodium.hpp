// SPDX-License-Identifier: Apache-2.0
//
// libsodium wants one call before any other; every source of ours that uses it asks here.
#pragma once

namespace exo::net {

// Starts the library once; later calls cost nothing.
void ensure_sodium();

} // namespace exo::net
