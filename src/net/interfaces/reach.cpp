// SPDX-License-Identifier: Apache-2.0
#include "net/interfaces/reach.hpp"

#include "base/assert.hpp"

#include <algorithm>

namespace exo::net {

Reach reach_through(InterfaceKind kind, bool is_on_link) {
    switch (kind) {
    case InterfaceKind::ethernet:
    case InterfaceKind::maybe_ethernet:
    case InterfaceKind::wifi:
    case InterfaceKind::thunderbolt:
    case InterfaceKind::unknown:
        return is_on_link ? Reach::lan : Reach::routed;
    case InterfaceKind::vpn:
        return Reach::vpn;
    case InterfaceKind::container:
        return Reach::container;
    case InterfaceKind::loopback:
        return Reach::loopback;
    }
    EXO_ASSERT(false);
}

char const* to_string(Reach reach) {
    switch (reach) {
    case Reach::lan:
        return "lan";
    case Reach::routed:
        return "routed";
    case Reach::vpn:
        return "vpn";
    case Reach::container:
        return "container";
    case Reach::loopback:
        return "loopback";
    }
    EXO_ASSERT(false);
}

int rank_of(Reach reach) {
    switch (reach) {
    case Reach::lan:
    case Reach::routed:
    case Reach::loopback:
        return 0;
    case Reach::vpn:
        return 1;
    case Reach::container:
        return 2;
    }
    EXO_ASSERT(false);
}

Reach reach_from(std::span<Interface const> interfaces, std::string const& local_ip) {
    auto const ip = Ip::parse(local_ip);
    auto const* const interface = ip ? owner_of(interfaces, *ip) : nullptr;
    return interface == nullptr ? Reach::routed : reach_through(interface->kind, true);
}

Interface const* owner_of(std::span<Interface const> interfaces, Ip const& ip) {
    for (auto const& interface : interfaces) {
        auto const has = [&](InterfaceAddress const& address) { return address.ip == ip; };
        if (interface.is_up && std::ranges::any_of(interface.addresses, has)) {
            return &interface;
        }
    }
    return nullptr;
}

Interface const* on_link(std::span<Interface const> interfaces, Ip const& ip) {
    Interface const* best = nullptr;
    unsigned best_bits = 0;
    if (ip.needs_zone()) {
        return nullptr;
    }
    for (auto const& interface : interfaces) {
        for (auto const& address : interface.addresses) {
            bool const fits = interface.is_up && address.ip.shares_prefix(ip, address.prefix_bits);
            if (fits && (best == nullptr || address.prefix_bits > best_bits)) {
                best = &interface;
                best_bits = address.prefix_bits;
            }
        }
    }
    return best;
}

bool is_own(std::span<Interface const> interfaces, Ip const& ip) {
    return ip.is_loopback() || owner_of(interfaces, ip) != nullptr;
}

Reach reach_of(
    std::span<Interface const> interfaces,
    std::string const& ip_text,
    std::string const& zone,
    LocalTowards const& local_towards
) {
    auto const ip = Ip::parse(ip_text);
    if (!ip) {
        return Reach::routed;
    }
    if (ip->is_loopback()) {
        return Reach::loopback;
    }
    if (!zone.empty()) {
        auto const found = std::ranges::find(interfaces, zone, &Interface::name);
        return found == interfaces.end() ? Reach::routed : reach_through(found->kind, true);
    }
    if (auto const* const interface = on_link(interfaces, *ip)) {
        return reach_through(interface->kind, true);
    }
    auto const local = local_towards(ip_text);
    auto const local_ip = local ? Ip::parse(*local) : std::nullopt;
    auto const* const interface = local_ip ? owner_of(interfaces, *local_ip) : nullptr;
    return interface == nullptr ? Reach::routed : reach_through(interface->kind, false);
}

} // namespace exo::net
