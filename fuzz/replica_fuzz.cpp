// SPDX-License-Identifier: Apache-2.0
//
// An input is what a node may say: on a direct stream (MessagePack) and on a topic (JSON). What
// can be read can be written, and read again.
#include "base/assert.hpp"
#include "core/replica/message.hpp"
#include "fuzz_target.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace exo::replica;
    exo::BytesView const bytes(data, size);
    if (auto const message = decode(bytes)) {
        EXO_ASSERT(decode(encode(*message)).has_value());
        EXO_ASSERT(!name_of(*message).empty());
        (void)protocol_of(*message);
    }
    if (auto const gossip = decode_gossip(exo::as_text(bytes))) {
        auto const text = encode_gossip(*gossip);
        EXO_ASSERT(text.size() > gossip_bytes_max || decode_gossip(text).has_value());
    }
    return 0;
}
