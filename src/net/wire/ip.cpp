// SPDX-License-Identifier: Apache-2.0
#include "net/wire/ip.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <string>

namespace exo::net {
namespace {

constexpr std::array<std::uint8_t, 12> ip4_in_ip6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

} // namespace

std::optional<Ip> Ip::parse(std::string_view text) {
    std::string const plain(text.substr(0, text.find('%')));
    Ip ip;
    ip.bytes_.resize(4);
    if (inet_pton(AF_INET, plain.c_str(), ip.bytes_.data()) == 1) {
        return ip;
    }
    ip.bytes_.resize(16);
    if (inet_pton(AF_INET6, plain.c_str(), ip.bytes_.data()) != 1) {
        return std::nullopt;
    }
    if (std::equal(ip4_in_ip6.begin(), ip4_in_ip6.end(), ip.bytes_.begin())) {
        ip.bytes_.erase(ip.bytes_.begin(), ip.bytes_.begin() + ip4_in_ip6.size());
    }
    return ip;
}

bool Ip::is_loopback() const {
    if (is_ip4()) {
        return bytes_[0] == 127;
    }
    return bytes_.back() == 1 &&
           std::all_of(bytes_.begin(), bytes_.end() - 1, [](auto byte) { return byte == 0; });
}

bool Ip::is_unspecified() const {
    if (is_ip4()) {
        return bytes_[0] == 0;
    }
    return std::ranges::all_of(bytes_, [](auto byte) { return byte == 0; });
}

bool Ip::is_link_local() const {
    if (is_ip4()) {
        return bytes_[0] == 169 && bytes_[1] == 254;
    }
    return bytes_[0] == 0xfe && (bytes_[1] & 0xc0) == 0x80;
}

bool Ip::needs_zone() const {
    return !is_ip4() && is_link_local();
}

bool Ip::is_multicast() const {
    return is_ip4() ? bytes_[0] >= 224 : bytes_[0] == 0xff; // With IPv4's broadcast address.
}

bool Ip::shares_prefix(Ip const& other, unsigned bits) const {
    if (bytes_.size() != other.bytes_.size() || bits > 8 * bytes_.size()) {
        return false;
    }
    auto const whole = bits / 8;
    auto const rest = bits % 8;
    if (!std::equal(bytes_.begin(), bytes_.begin() + whole, other.bytes_.begin())) {
        return false;
    }
    return rest == 0 || (bytes_[whole] ^ other.bytes_[whole]) >> (8 - rest) == 0;
}

bool may_lead_elsewhere(Ip const& ip) {
    return !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast();
}

} // namespace exo::net
