// SPDX-License-Identifier: Apache-2.0
//
// Peers and addresses for tests.
#pragma once

#include "net/wire/multiaddr.hpp"
#include "net/wire/peer_id.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace exo::net {

inline Multiaddr address(std::string const& text) {
    return Multiaddr::parse(text).value();
}

// 1 to 3: the peers of recorded sessions (specs/libp2p.md 13).
inline PeerId peer(int number) {
    constexpr std::array ids = {
        "12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5",
        "12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq",
        "12D3KooWRndVhVZPCiQwHBBBdg769GyrPUW13zxwqQyf9r3ANaba",
    };
    return PeerId::parse(ids.at(static_cast<std::size_t>(number - 1))).value();
}

// As many as are wanted; nobody has their keys.
inline PeerId numbered_peer(int number) {
    PublicKey key;
    key.bytes.fill(static_cast<std::uint8_t>(number));
    return PeerId::of(key);
}

} // namespace exo::net
