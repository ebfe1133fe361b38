// SPDX-License-Identifier: Apache-2.0
//
// The key of the private network: who does not have it cannot even start a handshake
// (specs/libp2p.md 3).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace exo::net {

using Psk = std::array<std::uint8_t, 32>;

// SHA3-256 of "exo_discovery_network" and the namespace, without a separator.
[[nodiscard]] Psk psk_of_namespace(std::string_view network_namespace);

} // namespace exo::net
