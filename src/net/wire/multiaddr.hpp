// SPDX-License-Identifier: Apache-2.0
//
// Multiaddrs: self-describing addresses such as /ip4/10.0.0.1/tcp/4001/p2p/12D3KooW..., and their
// binary form. Known parts: ip4, ip6, ip6zone, dns, dns4, dns6, tcp, p2p; others are refused, so
// an address that holds one is one that we cannot dial.
#pragma once

#include "base/bytes.hpp"
#include "net/wire/ip.hpp"
#include "net/wire/peer_id.hpp"

#include <compare>
#include <optional>
#include <string>
#include <vector>

namespace exo::net {

// Their codes in the multicodec table.
enum class AddrPart : std::uint32_t {
    ip4 = 4,
    tcp = 6,
    ip6 = 41,
    ip6zone = 42,
    dns = 53,
    dns4 = 54,
    dns6 = 55,
    p2p = 421,
};

// Where to connect to, taken from an address that starts with a host and a TCP port.
struct TcpTarget {
    AddrPart host_kind = AddrPart::ip4; // ip4, ip6, dns, dns4 or dns6.
    std::string host;                   // An IP address without zone, or a name.
    std::string zone;                   // The interface of a link-local IPv6 address.
    std::uint16_t port = 0;
    bool operator==(TcpTarget const&) const = default;
};

class Multiaddr {
public:
    Multiaddr() = default; // No address: empty.

    // Error: invalid_argument, naming the part.
    [[nodiscard]] static Result<Multiaddr> parse(std::string_view text);

    // Error: protocol.
    [[nodiscard]] static Result<Multiaddr> from_bytes(BytesView bytes);

    // `ip` as inet_pton takes it, v4 or v6, with an optional "%zone". Error: invalid_argument.
    [[nodiscard]] static Result<Multiaddr> tcp(std::string_view ip, std::uint16_t port);

    [[nodiscard]] std::string text() const;
    [[nodiscard]] Bytes bytes() const;

    // Empty if this does not start with a host and a TCP port.
    [[nodiscard]] std::optional<TcpTarget> tcp_target() const;

    [[nodiscard]] std::optional<PeerId> peer() const; // Of the last part, if that is p2p.
    [[nodiscard]] Multiaddr with_peer(PeerId const& peer) const; // Replaces one that is there.
    [[nodiscard]] Multiaddr without_peer() const;

    [[nodiscard]] bool empty() const { return parts_.empty(); }

    auto operator<=>(Multiaddr const&) const = default;

private:
    struct Part {
        AddrPart kind{};
        Bytes value; // As on the wire, without a length prefix.
        auto operator<=>(Part const&) const = default;
    };

    std::vector<Part> parts_;
};

// The IP address of its target; empty: a name, or no target.
[[nodiscard]] std::optional<Ip> ip_of(Multiaddr const& address);

// What people write: a multiaddr, "host:port", "[ip6]:port" or "[fe80::1%eth0]:port".
// Error: invalid_argument with the accepted forms.
[[nodiscard]] Result<Multiaddr> parse_address(std::string_view text);

} // namespace exo::net
