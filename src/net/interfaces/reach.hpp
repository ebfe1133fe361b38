// SPDX-License-Identifier: Apache-2.0
//
// How an address is reached from this machine, judged by the interface that leads there. Pure.
#pragma once

#include "net/interfaces/interface.hpp"

#include <functional>
#include <optional>
#include <span>
#include <string>

namespace exo::net {

// The order is that of preference.
enum class Reach {
    lan,       // On the link of a real interface.
    routed,    // Through a gateway; names that are not resolved yet.
    vpn,       // Through a tunnel.
    container, // On a bridge inside this machine.
    loopback,
};

[[nodiscard]] char const* to_string(Reach reach);

// How good a connection is by the way that it takes: 0 is best. A LAN and a gateway are alike, and
// so is loopback once it has led to the right peer.
[[nodiscard]] int rank_of(Reach reach);

// By an interface of this kind; `is_on_link`: without a gateway.
[[nodiscard]] Reach reach_through(InterfaceKind kind, bool is_on_link);

// Of a connection whose end here has the address `local_ip`.
[[nodiscard]] Reach reach_from(std::span<Interface const> interfaces, std::string const& local_ip);

// The interface that is up and has this very address.
[[nodiscard]] Interface const* owner_of(std::span<Interface const> interfaces, Ip const& ip);

// The interface that is up and on whose link `ip` is: the longest prefix. Link-local IPv6 addresses
// are on every link, so they are on none that could be told.
[[nodiscard]] Interface const* on_link(std::span<Interface const> interfaces, Ip const& ip);

// This machine's own, by loopback or by one of its addresses.
[[nodiscard]] bool is_own(std::span<Interface const> interfaces, Ip const& ip);

// The address that the system would send from to get there; empty: it cannot.
using LocalTowards = std::function<std::optional<std::string>(std::string const& ip)>;

// `zone`: the interface of a link-local IPv6 address, else empty. `local_towards` is asked for
// addresses that are on no link.
[[nodiscard]] Reach reach_of(
    std::span<Interface const> interfaces,
    std::string const& ip,
    std::string const& zone,
    LocalTowards const& local_towards
);

} // namespace exo::net
