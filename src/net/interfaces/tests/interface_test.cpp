// SPDX-License-Identifier: Apache-2.0
//
// What kind a device of Linux is, by what the system says of it.
#include "net/interfaces/interface.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

// As a kernel shows them (6.1): DEVTYPE, ARP type, what lies in the folder.
TEST(InterfaceKind, B081_comes_from_the_device) {
    struct Row {
        char const* what;
        LinuxTraits traits;
        InterfaceKind kind;
    };

    auto const rows = {
        Row{"lo", {.is_loopback = true, .arp_type = 772}, InterfaceKind::loopback},
        Row{"a card",
            {.has_device = true, .arp_type = 1, .driver = "e1000e"},
            InterfaceKind::ethernet},
        Row{"Wi-Fi",
            {.has_device = true, .is_wireless = true, .arp_type = 1, .device_type = "wlan"},
            InterfaceKind::wifi},
        Row{"Thunderbolt",
            {.has_device = true, .arp_type = 1, .driver = "thunderbolt-net"},
            InterfaceKind::thunderbolt},
        Row{"IP over InfiniBand", {.has_device = true, .arp_type = 32}, InterfaceKind::unknown},
        Row{"eth0 in a container", {.arp_type = 1}, InterfaceKind::maybe_ethernet},
        Row{"a VLAN", {.arp_type = 1, .device_type = "vlan"}, InterfaceKind::maybe_ethernet},
        Row{"a bond", {.arp_type = 1, .device_type = "bond"}, InterfaceKind::maybe_ethernet},
        Row{"br0 with eth0",
            {.has_real_port = true, .arp_type = 1, .device_type = "bridge"},
            InterfaceKind::maybe_ethernet},
        Row{"docker0", {.arp_type = 1, .device_type = "bridge"}, InterfaceKind::container},
        Row{"docker's end of a cable",
            {.is_bridge_port = true, .arp_type = 1},
            InterfaceKind::container},
        Row{"flannel", {.arp_type = 1, .device_type = "vxlan"}, InterfaceKind::container},
        Row{"Tailscale",
            {.is_point_to_point = true, .has_tun_flags = true, .arp_type = 65534},
            InterfaceKind::vpn},
        Row{"ZeroTier", {.has_tun_flags = true, .arp_type = 1}, InterfaceKind::vpn},
        Row{"WireGuard", {.arp_type = 65534, .device_type = "wireguard"}, InterfaceKind::vpn},
        Row{"a VPN of its own kind", {.name = "tailscale0", .arp_type = 1}, InterfaceKind::vpn},
        Row{"a card of that name",
            {.name = "tun0", .has_device = true, .arp_type = 1},
            InterfaceKind::ethernet},
        Row{"a SIT tunnel", {.arp_type = 776}, InterfaceKind::vpn},
    };
    for (auto const& row : rows) {
        EXPECT_EQ(kind_of(row.traits), row.kind) << row.what;
    }
}

TEST(InterfaceKind, others_hear_only_the_words_that_they_know) {
    EXPECT_STREQ(interface_type(InterfaceKind::wifi), "wifi");
    EXPECT_STREQ(interface_type(InterfaceKind::thunderbolt), "thunderbolt");
    EXPECT_STREQ(interface_type(InterfaceKind::ethernet), "ethernet");
    EXPECT_STREQ(interface_type(InterfaceKind::maybe_ethernet), "maybe_ethernet");
    for (auto const kind :
         {InterfaceKind::vpn, InterfaceKind::container, InterfaceKind::loopback}) {
        EXPECT_STREQ(interface_type(kind), "unknown");
    }
}

} // namespace
} // namespace exo::net
