// SPDX-License-Identifier: Apache-2.0
#include "base/assert.hpp"
#include "fuzz_target.hpp"
#include "net/identify/message.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace exo::net::identify;
    auto message = decode(exo::BytesView(data, size));
    if (message && size <= message_sent_bytes_max / 2) { // Else it may be too long for us to send.
        EXO_ASSERT(decode(encode(*message)).value() == *message);
    }
    return 0;
}
