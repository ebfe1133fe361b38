// SPDX-License-Identifier: Apache-2.0
//
// One network interface of this machine, and what kind it is. The kind comes from what the system
// says of the device, never from an address: 169.254.x.x is as often an Ethernet cable as a
// Thunderbolt one. Pure; scan.hpp fills it.
#pragma once

#include "net/wire/ip.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace exo::net {

enum class InterfaceKind {
    ethernet,
    maybe_ethernet, // Looks like it, but no device is behind it: a VLAN, a bond, a container's end
                    // of a cable, a bridge with a real port.
    wifi,
    thunderbolt,
    vpn,       // Any tunnel.
    container, // A bridge inside this machine: docker0, virbr0; or an overlay of containers.
    loopback,
    unknown,
};

[[nodiscard]] char const* to_string(InterfaceKind kind);

// The word of model::NetworkInterface::interface_type, which knows fewer kinds.
[[nodiscard]] char const* interface_type(InterfaceKind kind);

struct InterfaceAddress {
    std::string text; // Without a zone.
    Ip ip;
    unsigned prefix_bits = 0;
    bool operator==(InterfaceAddress const&) const = default;
};

struct Interface {
    std::string name;
    unsigned index = 0;
    InterfaceKind kind = InterfaceKind::unknown;
    bool is_up = false;
    bool is_running = false; // There is a carrier: somebody may be at the other end.
    bool has_multicast = false;
    bool is_port = false; // Of a bridge or bond, which does the talking.
    std::vector<InterfaceAddress> addresses;
    bool operator==(Interface const&) const = default;
};

// What Linux says of a device in /sys/class/net.
struct LinuxTraits {
    std::string name;
    bool is_loopback = false;
    bool is_point_to_point = false;
    bool has_device = false; // Hardware, or what a hypervisor shows as such.
    bool is_wireless = false;
    bool has_tun_flags = false; // tun and tap.
    bool is_bridge_port = false;
    bool has_real_port = false; // A bridge with a port that has a device.
    unsigned arp_type = 0;      // 1: Ethernet.
    std::string device_type;    // DEVTYPE of uevent; empty for most.
    std::string driver;
};

[[nodiscard]] InterfaceKind kind_of(LinuxTraits const& traits);

} // namespace exo::net
