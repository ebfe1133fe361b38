// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace exo::collective {
namespace {

constexpr std::uint32_t address_bits = 128;
constexpr std::uint32_t v4_bits = 32;

Error not_a_network(std::string const& text) {
    return Error(
        Errc::invalid_argument,
        fmt::format("'{}' is no network: write 10.1.2.0/24, fd00:1::/64 or one IP address", text)
    );
}

} // namespace

Result<Network> Network::parse(std::string const& text) {
    auto const slash = text.find('/');
    auto const ip = text.substr(0, slash);
    auto const address = Address::parse(ip, 0);
    auto const bytes = address ? address->ip_bytes() : std::nullopt;
    if (!bytes) {
        return not_a_network(text);
    }
    std::uint32_t const bits_max = ip.find(':') == std::string::npos ? v4_bits : address_bits;
    std::uint32_t bits = bits_max;
    if (slash != std::string::npos) {
        auto const digits = std::string_view(text).substr(slash + 1);
        auto const* const end = digits.data() + digits.size();
        auto const [rest, error] = std::from_chars(digits.data(), end, bits);
        if (error != std::errc() || rest != end || bits > bits_max) {
            return not_a_network(text);
        }
    }
    return Network(*bytes, address_bits - bits_max + bits);
}

bool Network::contains(Address const& address) const {
    auto const bytes = address.ip_bytes();
    if (!bytes) {
        return false;
    }
    for (std::uint32_t bit = 0; bit < bits_; ++bit) {
        std::uint32_t const mask = 0x80u >> bit % 8;
        if (((prefix_[bit / 8] ^ (*bytes)[bit / 8]) & mask) != 0) {
            return false;
        }
    }
    return true;
}

bool is_within(std::span<Network const> networks, Socket const& socket) {
    auto const peer = Address::of_peer(socket);
    auto const self = Address::of_self(socket);
    return std::ranges::any_of(networks, [&](Network const& network) {
        return network.contains(peer) && network.contains(self);
    });
}

} // namespace exo::collective
