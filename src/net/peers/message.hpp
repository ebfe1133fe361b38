// SPDX-License-Identifier: Apache-2.0
//
// The message of `/exo/peers/1.0.0`: addresses of other peers. Pure.
#pragma once

#include "base/bytes.hpp"
#include "net/wire/multiaddr.hpp"

#include <map>
#include <vector>

namespace exo::net::peers {

constexpr char const* protocol = "/exo/peers/1.0.0";

// 128 peers with 8 addresses of 30 bytes are 36 KiB.
constexpr std::size_t message_bytes_max = 64 * 1024;
constexpr std::size_t peers_max = 128;
constexpr std::size_t addresses_per_peer_max = 8;

// Addresses without /p2p.
using Addresses = std::map<PeerId, std::vector<Multiaddr>>;

// Without the length prefix. What exceeds the limits is left out.
[[nodiscard]] Bytes encode(Addresses const& addresses);

// Skips what it does not know: fields, and kinds of addresses. Errors: protocol (no message, or a
// bad peer id), limit.
[[nodiscard]] Result<Addresses> decode(BytesView bytes);

} // namespace exo::net::peers
