// SPDX-License-Identifier: Apache-2.0
//
// Networks that an operator declares private, where ranks need no cipher: a Thunderbolt cable, a
// switch of their own. Pure but for the parsing of addresses.
#pragma once

#include "collective/tcp/socket.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace exo::collective {

// "10.1.2.0/24", "fd00:1::/64", or one address.
class Network {
public:
    // Error: invalid_argument, with what is accepted.
    [[nodiscard]] static Result<Network> parse(std::string const& text);

    [[nodiscard]] bool contains(Address const& address) const;

private:
    Network(std::array<std::uint8_t, 16> const& prefix, std::uint32_t bits)
        : prefix_(prefix)
        , bits_(bits) {}

    std::array<std::uint8_t, 16> prefix_;
    std::uint32_t bits_; // Of the 16 bytes, where IPv4 is ::ffff:0:0/96.
};

// Both ends of the connection are in one of the networks.
[[nodiscard]] bool is_within(std::span<Network const> networks, Socket const& socket);

} // namespace exo::collective
