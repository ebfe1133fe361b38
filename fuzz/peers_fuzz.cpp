// SPDX-License-Identifier: Apache-2.0
#include "base/assert.hpp"
#include "fuzz_target.hpp"
#include "net/peers/message.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace exo::net::peers;
    auto const addresses = decode(exo::BytesView(data, size));
    if (addresses) {
        EXO_ASSERT(addresses->size() <= peers_max);
        auto const again = decode(encode(*addresses));
        // Ids of unusual length may make what we say longer than what may be said.
        EXO_ASSERT(again && again->size() <= addresses->size());
    }
    return 0;
}
