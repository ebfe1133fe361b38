// SPDX-License-Identifier: Apache-2.0
//
// An input is tried as bytes and as text of a multiaddr, a peer id and what people write.
#include "base/assert.hpp"
#include "fuzz_target.hpp"
#include "net/wire/multiaddr.hpp"
#include "net/wire/peer_id.hpp"

namespace exo::net {
namespace {

// What is valid in one form is the same in the other.
void check(Multiaddr const& address) {
    EXO_ASSERT(Multiaddr::from_bytes(address.bytes()).value() == address);
    EXO_ASSERT(Multiaddr::parse(address.text()).value() == address);
    (void)address.tcp_target();
    (void)address.without_peer();
}

void run(BytesView input) {
    if (auto const address = Multiaddr::from_bytes(input)) {
        check(*address);
    }
    if (auto const address = Multiaddr::parse(as_text(input))) {
        check(*address);
    }
    if (auto const address = parse_address(as_text(input))) {
        check(*address);
    }
    if (auto const peer = PeerId::from_bytes(input)) {
        EXO_ASSERT(PeerId::parse(peer->text()).value() == *peer);
    }
    if (auto const peer = PeerId::parse(as_text(input))) {
        EXO_ASSERT(PeerId::from_bytes(peer->bytes()).value() == *peer);
    }
}

} // namespace
} // namespace exo::net

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    exo::net::run(exo::BytesView(data, size));
    return 0;
}
