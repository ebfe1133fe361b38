// SPDX-License-Identifier: Apache-2.0
//
// On which interfaces mDNS speaks, and by which one a packet came. Pure.
#pragma once

#include "net/interfaces/interface.hpp"
#include "net/mdns/discovery.hpp"

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace exo::net::mdns {

// Machines with many containers have hundreds of bridges; peers are behind few of them.
constexpr std::size_t links_max = 32;

// One address family of an interface.
struct Link {
    std::string name;
    unsigned index = 0;
    InterfaceKind kind = InterfaceKind::unknown;
    bool is_ip4 = true;
    std::vector<InterfaceAddress> addresses;
    bool operator==(Link const&) const = default;
};

struct Links {
    std::map<LinkId, Link> chosen;
    std::size_t left_out = 0; // There was no room for them.
};

// Those that have a carrier and can multicast. Where they exceed `links_max`, real networks have
// precedence over tunnels, and these over the bridges of containers. Loopback (IPv4) only where
// there is nothing else, so that nodes of one machine without a network still find each other.
[[nodiscard]] Links choose_links(std::vector<Interface> interfaces);

// Linux delivers IPv6 multicast of every interface to every socket of the machine that has joined
// the group on any. The zone of the sender (0: none), or its prefix, tells by which one it came.
[[nodiscard]] bool
came_by(Link const& link, Ip const& sender, unsigned zone, std::span<Interface const> interfaces);

} // namespace exo::net::mdns
