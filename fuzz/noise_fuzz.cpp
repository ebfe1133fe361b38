// SPDX-License-Identifier: Apache-2.0
//
// The handshake with fixed keys, both sides, and what comes after it: the corpus holds the recorded
// transcript, so mutations of it go deep. The rest of an input is read as transport messages.
#include "fuzz_target.hpp"
#include "net/noise/handshake.hpp"

namespace exo::net::noise {
namespace {

Identity identity(std::uint8_t fill) {
    Seed seed;
    seed.fill(fill);
    return Identity::from_seed(seed);
}

Secrets secrets(std::uint8_t static_fill, std::uint8_t ephemeral_fill) {
    Secrets both;
    both.static_key.fill(static_fill);
    both.ephemeral_key.fill(ephemeral_fill);
    return both;
}

void run(Side side, fuzz::Pieces const& pieces) {
    bool const is_initiator = side == Side::initiator;
    auto const own = identity(is_initiator ? 0x01 : 0x02);
    auto const keys = is_initiator ? secrets(0x11, 0x12) : secrets(0x21, 0x22);
    Handshake handshake(side, own, keys, std::nullopt);
    std::optional<Transport> transport;
    Bytes plain;
    pieces.each([&](BytesView piece) {
        if (transport) {
            return transport->decrypt(piece, plain).has_value();
        }
        if (!handshake.receive(piece)) {
            return false;
        }
        (void)handshake.take_output();
        if (handshake.done()) {
            transport = handshake.transport();
            return transport->decrypt(handshake.take_rest(), plain).has_value();
        }
        return true;
    });
}

} // namespace
} // namespace exo::net::noise

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    exo::fuzz::Pieces const pieces(exo::BytesView(data, size));
    exo::net::noise::run(exo::net::noise::Side::initiator, pieces);
    exo::net::noise::run(exo::net::noise::Side::responder, pieces);
    return 0;
}
