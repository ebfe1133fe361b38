// SPDX-License-Identifier: Apache-2.0
#include "net/wire/ip.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

Ip ip(char const* text) {
    return Ip::parse(text).value();
}

TEST(Ip, is_what_inet_pton_takes) {
    for (auto const* text : {"", "1.2.3", "1.2.3.4.5", "host", "fe80::1::2", "1.2.3.4 "}) {
        EXPECT_FALSE(Ip::parse(text)) << text;
    }
    EXPECT_TRUE(ip("10.0.0.1").is_ip4());
    EXPECT_FALSE(ip("fe80::1%eth0").is_ip4());
    EXPECT_EQ(ip("fe80::1%eth0"), ip("fe80:0::1"));
}

TEST(Ip, B076_loopback_is_known_in_every_form) {
    for (auto const* text : {"127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1", "0:0::0:1"}) {
        EXPECT_TRUE(ip(text).is_loopback()) << text;
        EXPECT_FALSE(may_lead_elsewhere(ip(text))) << text;
    }
    for (auto const* text : {"128.0.0.1", "::2", "1::1", "::ffff:10.0.0.1"}) {
        EXPECT_FALSE(ip(text).is_loopback()) << text;
        EXPECT_TRUE(may_lead_elsewhere(ip(text))) << text;
    }
}

TEST(Ip, nobody_and_everybody_are_not_dialled) {
    for (auto const* text :
         {"0.0.0.0", "0.1.2.3", "::", "224.0.0.251", "255.255.255.255", "ff02::fb"}) {
        EXPECT_FALSE(may_lead_elsewhere(ip(text))) << text;
    }
}

TEST(Ip, link_local_is_169_254_and_fe80_to_febf) {
    for (auto const* text : {"169.254.1.1", "fe80::1", "febf::1"}) {
        EXPECT_TRUE(ip(text).is_link_local()) << text;
    }
    for (auto const* text : {"169.253.1.1", "fec0::1", "fd00::1", "10.0.0.1"}) {
        EXPECT_FALSE(ip(text).is_link_local()) << text;
    }
}

TEST(Ip, only_link_local_ip6_needs_a_zone) {
    EXPECT_TRUE(ip("fe80::1").needs_zone());
    EXPECT_FALSE(ip("169.254.1.1").needs_zone());
    EXPECT_FALSE(ip("fd00::1").needs_zone());
}

TEST(Ip, prefixes_are_compared_bit_by_bit) {
    EXPECT_TRUE(ip("10.0.0.1").shares_prefix(ip("10.0.0.200"), 24));
    EXPECT_FALSE(ip("10.0.0.1").shares_prefix(ip("10.0.1.1"), 24));
    EXPECT_TRUE(ip("10.0.0.1").shares_prefix(ip("10.0.1.1"), 23));
    EXPECT_TRUE(ip("10.0.0.1").shares_prefix(ip("10.0.0.1"), 32));
    EXPECT_FALSE(ip("10.0.0.1").shares_prefix(ip("10.0.0.1"), 33));
    EXPECT_TRUE(ip("10.0.0.1").shares_prefix(ip("200.0.0.1"), 0));
    EXPECT_FALSE(ip("10.0.0.1").shares_prefix(ip("::1"), 0));
    EXPECT_TRUE(ip("fd00:1::1").shares_prefix(ip("fd00:1::ffff"), 64));
    EXPECT_FALSE(ip("fd00:1::1").shares_prefix(ip("fd00:2::1"), 64));
}

} // namespace
} // namespace exo::net
