// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/network.hpp"

#include <gtest/gtest.h>

namespace exo::collective {
namespace {

bool contains(std::string const& network, std::string const& ip) {
    auto const parsed = Network::parse(network);
    auto const address = Address::parse(ip, 4000);
    EXPECT_TRUE(parsed) << network;
    EXPECT_TRUE(address) << ip;
    return parsed && address && parsed->contains(*address);
}

TEST(Network, contains_its_addresses_and_no_others) {
    EXPECT_TRUE(contains("10.1.2.0/24", "10.1.2.255"));
    EXPECT_FALSE(contains("10.1.2.0/24", "10.1.3.0"));
    EXPECT_TRUE(contains("10.1.2.128/25", "10.1.2.129"));
    EXPECT_FALSE(contains("10.1.2.128/25", "10.1.2.127"));
    EXPECT_TRUE(contains("0.0.0.0/0", "8.8.8.8"));
    EXPECT_TRUE(contains("192.168.7.7", "192.168.7.7"));
    EXPECT_FALSE(contains("192.168.7.7", "192.168.7.8"));
    EXPECT_TRUE(contains("fd00:1::/64", "fd00:1::9"));
    EXPECT_FALSE(contains("fd00:1::/64", "fd00:1:0:1::9"));
    EXPECT_TRUE(contains("::/0", "fe80::1"));
}

TEST(Network, of_ipv4_holds_addresses_of_ipv6_only_if_they_stand_for_ipv4) {
    EXPECT_TRUE(contains("10.1.2.0/24", "::ffff:10.1.2.3"));
    EXPECT_FALSE(contains("0.0.0.0/0", "fd00::1"));
}

TEST(Network, that_is_none_is_refused_with_what_is_accepted) {
    for (auto const* text :
         {"", "/", "10.1.2.0/33", "10.1.2.0/", "10.1.2.0/-1", "10.1.2.0/8x", "fd00::/129", "eth0"
         }) {
        auto const result = Network::parse(text);
        ASSERT_FALSE(result) << text;
        EXPECT_EQ(result.error().code(), Errc::invalid_argument);
        EXPECT_NE(result.error().text().find("10.1.2.0/24"), std::string::npos);
    }
}

} // namespace
} // namespace exo::collective
