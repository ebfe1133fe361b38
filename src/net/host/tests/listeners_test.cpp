// SPDX-License-Identifier: Apache-2.0
//
// Which of our addresses a peer is told.
#include "net/host/listeners.hpp"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <algorithm>

namespace exo::net {
namespace {

InterfaceAddress address(char const* ip) {
    return {.text = ip, .ip = Ip::parse(ip).value(), .prefix_bits = 24};
}

std::vector<Interface> const machine{
    {.name = "lo",
     .index = 1,
     .kind = InterfaceKind::loopback,
     .is_up = true,
     .addresses = {address("127.0.0.1"), address("::1")}},
    {.name = "eth0",
     .index = 2,
     .kind = InterfaceKind::ethernet,
     .is_up = true,
     .addresses = {address("10.17.35.1"), address("fe80::1")}},
    {.name = "eth1",
     .index = 3,
     .kind = InterfaceKind::ethernet,
     .is_up = true,
     .addresses = {address("10.38.0.7"), address("10.38.0.1")}},
    {.name = "docker0",
     .index = 4,
     .kind = InterfaceKind::container,
     .is_up = true,
     .addresses = {address("172.17.0.1")}},
    {.name = "eth2",
     .index = 5,
     .kind = InterfaceKind::ethernet,
     .is_up = false,
     .addresses = {address("10.99.0.1")}},
};

class ListenersTest : public testing::Test {
protected:
    void SetUp() override {
        std::vector<Multiaddr> listen{
            Multiaddr::parse("/ip4/0.0.0.0/tcp/0").value(),
            Multiaddr::parse("/ip6/::/tcp/0").value()
        };
        ASSERT_TRUE(listeners_.open(io_.get_executor(), listen));
    }

    void TearDown() override { listeners_.close(); }

    std::vector<std::string> told(char const* local_ip) {
        std::vector<std::string> hosts;
        for (auto const& one : listeners_.reachable(machine, local_ip)) {
            auto const host = one.tcp_target()->host;
            if (host.find(':') == host.npos || listeners_.addresses().size() > 1) {
                hosts.push_back(host);
            }
        }
        return hosts;
    }

    bool has_ip6() const { return listeners_.addresses().size() > 1; }

    asio::io_context io_;
    Listeners listeners_;
};

using Hosts = std::vector<std::string>;

TEST_F(ListenersTest, B087_the_address_of_the_socket_that_reached_the_peer_comes_first) {
    EXPECT_EQ(told("10.38.0.1").at(0), "10.38.0.1");
    EXPECT_EQ(told("10.38.0.1").at(1), "10.38.0.7"); // Then those of the same interface.
    EXPECT_EQ(told("10.17.35.1").at(0), "10.17.35.1");
}

TEST_F(ListenersTest, B074_a_containers_bridge_is_told_only_on_that_bridge) {
    EXPECT_EQ(std::ranges::count(told("10.38.0.1"), "172.17.0.1"), 0);
    EXPECT_EQ(told("172.17.0.1").at(0), "172.17.0.1");
}

TEST_F(ListenersTest, B073_an_interface_that_is_down_is_not_told) {
    EXPECT_EQ(std::ranges::count(told("10.38.0.1"), "10.99.0.1"), 0);
}

TEST_F(ListenersTest, B076_loopback_is_told_on_this_machine_only) {
    EXPECT_EQ(std::ranges::count(told("10.38.0.1"), "127.0.0.1"), 0);
    EXPECT_EQ(std::ranges::count(told("10.38.0.1"), "::1"), 0);
    EXPECT_EQ(told("127.0.0.1").at(0), "127.0.0.1");
}

TEST_F(ListenersTest, link_local_ipv6_is_told_on_that_link_only) {
    if (!has_ip6()) {
        GTEST_SKIP() << "this machine has no IPv6";
    }
    EXPECT_EQ(std::ranges::count(told("10.38.0.1"), "fe80::1"), 0);
    EXPECT_EQ(std::ranges::count(told("10.17.35.1"), "fe80::1"), 1);
    EXPECT_EQ(told("fe80::1%eth0").at(0), "fe80::1");
}

TEST_F(ListenersTest, without_a_network_loopback_is_what_there_is) {
    auto const only = listeners_.reachable({machine.data(), 1}, "");
    EXPECT_FALSE(only.empty());
}

} // namespace
} // namespace exo::net
