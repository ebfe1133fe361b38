// SPDX-License-Identifier: Apache-2.0
//
// On which interfaces we ask.
#include "net/mdns/links.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace exo::net::mdns {
namespace {

Interface interface(
    std::string const& name, unsigned index, InterfaceKind kind, std::vector<std::string> const& ips
) {
    Interface result{
        .name = name,
        .index = index,
        .kind = kind,
        .is_up = true,
        .is_running = true,
        .has_multicast = kind != InterfaceKind::loopback,
    };
    for (auto const& ip : ips) {
        result.addresses.push_back({.text = ip, .ip = Ip::parse(ip).value(), .prefix_bits = 64});
    }
    return result;
}

auto const lo = interface("lo", 1, InterfaceKind::loopback, {"127.0.0.1", "::1"});
auto const eth0 = interface("eth0", 90, InterfaceKind::ethernet, {"10.0.0.1", "fd00:1::1"});
auto const wg0 = interface("wg0", 91, InterfaceKind::vpn, {"10.8.0.1", "fd00:2::1"});

std::vector<std::string> names_of(std::vector<Interface> const& interfaces) {
    std::vector<std::string> names;
    for (auto const& [id, link] : choose_links(interfaces).chosen) {
        names.push_back(link.name + (link.is_ip4 ? "/4" : "/6"));
    }
    return names;
}

using Names = std::vector<std::string>;

TEST(MdnsLinks, are_the_families_of_the_interfaces_that_can_multicast) {
    EXPECT_EQ(names_of({lo, eth0, wg0}), (Names{"eth0/4", "eth0/6", "wg0/4", "wg0/6"}));
    auto deaf = wg0;
    deaf.has_multicast = false;
    EXPECT_EQ(names_of({lo, eth0, deaf}), (Names{"eth0/4", "eth0/6"}));
}

TEST(MdnsLinks, B073_what_is_down_or_has_no_carrier_is_left_alone) {
    auto down = interface("docker0", 3, InterfaceKind::container, {"172.17.0.1"});
    down.is_running = false;
    auto port = interface("veth1", 4, InterfaceKind::container, {"fe80::1"});
    port.is_port = true;
    EXPECT_EQ(names_of({lo, down, port, eth0}), (Names{"eth0/4", "eth0/6"}));
}

TEST(MdnsLinks, B076_loopback_is_used_only_without_a_network) {
    EXPECT_EQ(names_of({lo}), Names{"lo/4"});
    EXPECT_EQ(names_of({eth0, lo}), (Names{"eth0/4", "eth0/6"}));
}

TEST(MdnsLinks, B073_many_bridges_do_not_hide_the_network_card) {
    std::vector<Interface> many{lo};
    for (unsigned i = 2; i < 42; ++i) {
        auto const ip = "172.20." + std::to_string(i) + ".1";
        many.push_back(interface("br" + std::to_string(i), i, InterfaceKind::container, {ip}));
    }
    many.push_back(wg0);
    many.push_back(eth0);
    auto const links = choose_links(many);
    EXPECT_EQ(links.chosen.size(), links_max);
    EXPECT_EQ(links.left_out, 12U); // 40 bridges and 4 links of the others, less 32.
    auto const names = names_of(many);
    for (auto const* name : {"eth0/4", "eth0/6", "wg0/4", "wg0/6"}) {
        EXPECT_EQ(std::ranges::count(names, name), 1) << name;
    }
}

TEST(MdnsLinks, an_ipv6_packet_counts_on_the_link_by_which_it_came) {
    std::vector<Interface> const all{eth0, wg0};
    auto const links = choose_links(all).chosen;
    auto const& on_eth0 = links.at(LinkId(90 * 2 + 1));
    auto const link_local = Ip::parse("fe80::9").value();
    EXPECT_TRUE(came_by(on_eth0, link_local, 90, all));
    EXPECT_FALSE(came_by(on_eth0, link_local, 91, all));
    EXPECT_TRUE(came_by(on_eth0, Ip::parse("fd00:1::9").value(), 0, all));
    EXPECT_FALSE(came_by(on_eth0, Ip::parse("fd00:2::9").value(), 0, all));
    EXPECT_TRUE(came_by(on_eth0, Ip::parse("2001:db8::9").value(), 0, all)); // Nobody can tell.
    EXPECT_TRUE(came_by(links.at(LinkId(90 * 2)), Ip::parse("10.0.0.9").value(), 0, all));
}

} // namespace
} // namespace exo::net::mdns
