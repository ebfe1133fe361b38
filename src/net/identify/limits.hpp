// SPDX-License-Identifier: Apache-2.0
//
// What the host takes of identify messages, with the reasons. Of one peer one message is kept.
#pragma once

#include "base/time.hpp"

#include <cstddef>

namespace exo::net::identify {

struct Limits {
    // js's own limit; signed peer records make messages of 1 KiB usual.
    std::size_t message_bytes_max = 8192;
    // Addresses and protocols of one message; 8 KiB could hold thousands of empty ones.
    std::size_t entries_max = 256;
    // For one message to come or to go.
    Duration patience = 10s;
    // Between a change of our addresses and telling the peers: interfaces come and go with several
    // addresses one after the other.
    Duration push_pause = 500ms;
};

} // namespace exo::net::identify
