// SPDX-License-Identifier: Apache-2.0
//
// Which interface leads to an address.
#include "net/interfaces/reach.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

InterfaceAddress address(char const* ip, unsigned bits) {
    return {.text = ip, .ip = Ip::parse(ip).value(), .prefix_bits = bits};
}

Interface interface(
    char const* name, InterfaceKind kind, std::vector<InterfaceAddress> addresses, bool is_up = true
) {
    return {.name = name, .index = 1, .kind = kind, .is_up = is_up, .addresses = addresses};
}

std::vector<Interface> const machine{
    interface("lo", InterfaceKind::loopback, {address("127.0.0.1", 8), address("::1", 128)}),
    interface(
        "eth0",
        InterfaceKind::ethernet,
        {address("192.168.1.5", 24), address("fd00::5", 64), address("fe80::5", 64)}
    ),
    interface("tb0", InterfaceKind::thunderbolt, {address("169.254.1.5", 16)}),
    interface("docker0", InterfaceKind::container, {address("172.17.0.1", 16)}),
    interface("wg0", InterfaceKind::vpn, {address("10.8.0.5", 24)}),
    interface("tailscale0", InterfaceKind::vpn, {address("100.101.0.5", 32)}),
    interface("eth1", InterfaceKind::ethernet, {address("10.99.0.5", 16)}, false),
};

std::optional<std::string> no_route(std::string const&) {
    return std::nullopt;
}

Reach reach(char const* ip, char const* zone = "", LocalTowards const& towards = no_route) {
    return reach_of(machine, ip, zone, towards);
}

TEST(Reach, B081_is_the_kind_of_the_interface_on_whose_link_the_address_is) {
    EXPECT_EQ(reach("192.168.1.77"), Reach::lan);
    EXPECT_EQ(reach("fd00::77"), Reach::lan);
    EXPECT_EQ(reach("169.254.1.77"), Reach::lan); // Thunderbolt here, Ethernet elsewhere.
    EXPECT_EQ(reach("172.17.0.9"), Reach::container);
    EXPECT_EQ(reach("10.8.0.9"), Reach::vpn);
    EXPECT_EQ(reach("127.3.0.1"), Reach::loopback);
    EXPECT_EQ(reach("::1"), Reach::loopback);
    EXPECT_EQ(reach("::ffff:127.0.0.1"), Reach::loopback);
}

TEST(Reach, the_same_prefix_is_a_lan_where_the_interface_is_one) {
    auto const docker_like =
        interface("eth0", InterfaceKind::ethernet, {address("172.17.0.5", 16)});
    EXPECT_EQ(reach_of({&docker_like, 1}, "172.17.0.9", "", no_route), Reach::lan);
}

TEST(Reach, a_link_local_address_is_where_its_zone_says) {
    EXPECT_EQ(reach("fe80::77", "eth0"), Reach::lan);
    EXPECT_EQ(reach("fe80::77", "docker0"), Reach::container);
    EXPECT_EQ(reach("fe80::77", "gone"), Reach::routed);
}

TEST(Reach, elsewhere_the_systems_route_decides) {
    auto const through = [](char const* local) {
        return [local](std::string const&) { return std::optional<std::string>(local); };
    };
    EXPECT_EQ(reach("8.8.8.8", "", through("192.168.1.5")), Reach::routed);
    EXPECT_EQ(reach("100.101.0.9", "", through("100.101.0.5")), Reach::vpn);
    EXPECT_EQ(reach("8.8.8.8"), Reach::routed);
}

TEST(Reach, B073_an_interface_that_is_down_leads_nowhere) {
    EXPECT_EQ(reach("10.99.0.7"), Reach::routed);
    EXPECT_EQ(owner_of(machine, Ip::parse("10.99.0.5").value()), nullptr);
}

TEST(Reach, the_longest_prefix_wins) {
    std::vector<Interface> const two{
        interface("wide", InterfaceKind::ethernet, {address("10.0.0.5", 8)}),
        interface("narrow", InterfaceKind::vpn, {address("10.8.0.5", 24)}),
    };
    EXPECT_EQ(on_link(two, Ip::parse("10.8.0.9").value())->name, "narrow");
    EXPECT_EQ(on_link(two, Ip::parse("10.9.0.9").value())->name, "wide");
}

TEST(Reach, a_connection_is_as_good_as_the_interface_of_its_end_here) {
    EXPECT_EQ(reach_from(machine, "192.168.1.5"), Reach::lan);
    EXPECT_EQ(reach_from(machine, "fe80::5%eth0"), Reach::lan);
    EXPECT_EQ(reach_from(machine, "100.101.0.5"), Reach::vpn);
    EXPECT_EQ(reach_from(machine, "172.17.0.1"), Reach::container);
    EXPECT_EQ(reach_from(machine, "127.0.0.1"), Reach::loopback);
    EXPECT_EQ(reach_from(machine, "10.1.2.3"), Reach::routed); // It has just gone.
    EXPECT_LT(rank_of(Reach::lan), rank_of(Reach::vpn));
    EXPECT_LT(rank_of(Reach::vpn), rank_of(Reach::container));
    EXPECT_EQ(rank_of(Reach::loopback), rank_of(Reach::lan)); // It does lead to the peer.
}

TEST(Reach, our_own_addresses_are_known) {
    EXPECT_TRUE(is_own(machine, Ip::parse("192.168.1.5").value()));
    EXPECT_TRUE(is_own(machine, Ip::parse("127.0.0.7").value()));
    EXPECT_FALSE(is_own(machine, Ip::parse("192.168.1.6").value()));
}

} // namespace
} // namespace exo::net
