// SPDX-License-Identifier: Apache-2.0
//
// The key of the private network: who does not have it cannot even start a handshake
// (specs/libp2p.md 3).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace exo::net {

using Psk = std::array<std::uint8_t, 32>;

// SHA3-256 of "exo_discovery_network" and the namespace, without a separator.
[[nodiscard]] Psk psk_of_namespace(std::string_view network_namespace);

// A short name of the key, for people who compare two machines: "7f3a-09bc". It tells nothing of
// the key, and is not the hash that goes over the network.
[[nodiscard]] std::string fingerprint(Psk const& psk);

} // namespace exo::net
