// SPDX-License-Identifier: Apache-2.0
#include "net/interfaces/interface.hpp"

#include "base/assert.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace exo::net {
namespace {

constexpr unsigned arp_type_ethernet = 1;

// Some VPN programs use devices of other kinds; their names tell.
bool is_named_like_a_tunnel(std::string_view name) {
    constexpr std::array<std::string_view, 7> names{
        "tailscale", "wg", "zt", "tun", "tap", "ipsec", "nebula"
    };
    return std::ranges::any_of(names, [&](auto prefix) { return name.starts_with(prefix); });
}

} // namespace

char const* to_string(InterfaceKind kind) {
    switch (kind) {
    case InterfaceKind::ethernet:
        return "ethernet";
    case InterfaceKind::maybe_ethernet:
        return "maybe_ethernet";
    case InterfaceKind::wifi:
        return "wifi";
    case InterfaceKind::thunderbolt:
        return "thunderbolt";
    case InterfaceKind::vpn:
        return "vpn";
    case InterfaceKind::container:
        return "container";
    case InterfaceKind::loopback:
        return "loopback";
    case InterfaceKind::unknown:
        return "unknown";
    }
    EXO_ASSERT(false);
}

char const* interface_type(InterfaceKind kind) {
    bool const is_known = kind == InterfaceKind::ethernet ||
                          kind == InterfaceKind::maybe_ethernet || kind == InterfaceKind::wifi ||
                          kind == InterfaceKind::thunderbolt;
    return is_known ? to_string(kind) : "unknown";
}

InterfaceKind kind_of(LinuxTraits const& traits) {
    auto const& type = traits.device_type;
    if (traits.is_loopback) {
        return InterfaceKind::loopback;
    }
    if (traits.is_wireless || type == "wlan") {
        return InterfaceKind::wifi;
    }
    if (traits.driver.starts_with("thunderbolt")) {
        return InterfaceKind::thunderbolt;
    }
    if (type == "bridge") {
        return traits.has_real_port ? InterfaceKind::maybe_ethernet : InterfaceKind::container;
    }
    if (type == "vxlan" || type == "geneve") {
        return InterfaceKind::container;
    }
    if (traits.has_device) {
        return traits.arp_type == arp_type_ethernet ? InterfaceKind::ethernet
                                                    : InterfaceKind::unknown;
    }
    if (traits.is_bridge_port) {
        return InterfaceKind::container; // The machine's end of a container's cable.
    }
    if (traits.has_tun_flags || traits.is_point_to_point || type == "wireguard" ||
        traits.arp_type != arp_type_ethernet || is_named_like_a_tunnel(traits.name)) {
        return InterfaceKind::vpn;
    }
    return InterfaceKind::maybe_ethernet;
}

} // namespace exo::net
