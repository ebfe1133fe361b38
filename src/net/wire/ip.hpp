// SPDX-License-Identifier: Apache-2.0
//
// An IP address, as far as finding and dialling peers must understand it. Pure.
#pragma once

#include "base/bytes.hpp"

#include <compare>
#include <optional>
#include <string_view>

namespace exo::net {

class Ip {
public:
    // As inet_pton takes it; a "%zone" is ignored. An IPv4 address in IPv6 clothes (::ffff:1.2.3.4)
    // is an IPv4 address, so that 127.0.0.1 is what it is in every form. Empty: no IP address.
    [[nodiscard]] static std::optional<Ip> parse(std::string_view text);

    [[nodiscard]] bool is_ip4() const { return bytes_.size() == 4; }

    [[nodiscard]] bool is_loopback() const;
    [[nodiscard]] bool is_unspecified() const; // All of 0.0.0.0/8: some systems take it for 127/8.
    [[nodiscard]] bool is_link_local() const;
    [[nodiscard]] bool needs_zone() const; // Link-local IPv6: nowhere without its interface.
    [[nodiscard]] bool is_multicast() const;

    // Both begin with the same `bits`. False for two families, and for more bits than there are.
    [[nodiscard]] bool shares_prefix(Ip const& other, unsigned bits) const;

    auto operator<=>(Ip const&) const = default;

private:
    Bytes bytes_; // 4 or 16.
};

// Neither this machine itself, nor nobody, nor everybody: an address that may lead to a peer
// elsewhere.
[[nodiscard]] bool may_lead_elsewhere(Ip const& ip);

} // namespace exo::net
