// SPDX-License-Identifier: Apache-2.0
//
// The port at which other nodes reach this one, and the addresses that go with it. Without
// --libp2p-port one is chosen once and kept in a file, so that join tokens and the address books of
// other nodes stay true when this node starts again.
#pragma once

#include "base/random.hpp"
#include "model/node_info.hpp"
#include "net/wire/multiaddr.hpp"

#include <filesystem>
#include <optional>
#include <vector>

namespace exo::node {

// Of these ports one is chosen. Systems give others to outgoing connections (Linux from 32768 on),
// so that one of those may be taken when the node starts again.
constexpr std::uint16_t own_port_first = 20000;
constexpr std::uint16_t own_port_last = 32767;
// A machine on which so many of them are taken has other problems.
constexpr std::size_t own_port_tries = 16;

// Empty: there is no such file, or no port in it.
[[nodiscard]] std::optional<std::uint16_t> kept_port(std::filesystem::path const& file);

// Error: io.
[[nodiscard]] Result<> keep_port(std::filesystem::path const& file, std::uint16_t port);

// In the order in which to try them: the kept one first, then others by chance. Never empty.
[[nodiscard]] std::vector<std::uint16_t>
ports_to_try(std::optional<std::uint16_t> kept, Random random);

// The kept port, else one that is free now, which is kept: a token may be made before the node has
// ever run. Errors: unavailable (none is free); io.
[[nodiscard]] Result<std::uint16_t> reserve_port(std::filesystem::path const& file);

// Where others can dial this machine: real interfaces before tunnels, the loopback address only if
// there is nothing else. At most as many as a token takes.
[[nodiscard]] std::vector<net::Multiaddr> own_addresses(std::uint16_t port);

// The pure part of it. The order stays.
[[nodiscard]] std::vector<net::Multiaddr>
addresses_to_tell(std::vector<model::NetworkInterface> const& interfaces, std::uint16_t port);

} // namespace exo::node
