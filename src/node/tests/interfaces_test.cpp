// SPDX-License-Identifier: Apache-2.0
#include "node/interfaces.hpp"

#include <gtest/gtest.h>

namespace exo::node {
namespace {

net::InterfaceAddress address(char const* ip) {
    return {.text = ip, .ip = net::Ip::parse(ip).value(), .prefix_bits = 24};
}

TEST(Interfaces, B076_only_what_other_machines_may_reach_is_told) {
    using net::InterfaceKind;
    std::vector<net::Interface> const machine{
        {.name = "lo",
         .kind = InterfaceKind::loopback,
         .is_up = true,
         .addresses = {address("127.0.0.1")}},
        {.name = "wg0",
         .kind = InterfaceKind::vpn,
         .is_up = true,
         .addresses = {address("10.8.0.1")}},
        {.name = "wlan0",
         .kind = InterfaceKind::wifi,
         .is_up = true,
         .addresses = {address("192.168.1.5"), address("fe80::1"), address("169.254.1.1")}},
        {.name = "docker0",
         .kind = InterfaceKind::container,
         .is_up = true,
         .addresses = {address("172.17.0.1")}},
        {.name = "eth0", .kind = InterfaceKind::ethernet, .addresses = {address("10.0.0.1")}},
    };
    std::vector<model::NetworkInterface> const expected{
        {.name = "wlan0", .ip_address = "192.168.1.5", .interface_type = "wifi"},
        {.name = "wlan0", .ip_address = "169.254.1.1", .interface_type = "wifi"},
        {.name = "wg0", .ip_address = "10.8.0.1", .interface_type = "unknown"},
    };
    EXPECT_EQ(reachable_interfaces(machine), expected);
}

TEST(Interfaces, of_this_machine_hold_no_loopback) {
    for (auto const& interface : network_interfaces()) {
        EXPECT_NE(interface.name, "lo");
        EXPECT_FALSE(interface.ip_address.starts_with("127."));
        EXPECT_FALSE(interface.interface_type.empty());
    }
}

} // namespace
} // namespace exo::node
