// SPDX-License-Identifier: Apache-2.0
#include "net/host/isolation.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

using Word = Isolation::Word;

constexpr TimePoint start{};

TEST(Isolation, is_told_after_10_s_and_rarely_again_and_when_it_ends) {
    Isolation isolation(start);
    EXPECT_EQ(isolation.look(0, start), Word::nothing);
    EXPECT_EQ(isolation.deadline(), start + 10s);
    EXPECT_EQ(isolation.look(0, start + 10s), Word::begins);
    EXPECT_EQ(isolation.look(0, start + 11s), Word::nothing);
    EXPECT_EQ(isolation.deadline(), start + 10s + 30min);
    EXPECT_EQ(isolation.look(0, isolation.deadline()), Word::goes_on);
    EXPECT_EQ(isolation.look(2, start + 1h), Word::ended);
    EXPECT_EQ(isolation.look(1, start + 2h), Word::nothing);
    EXPECT_EQ(isolation.deadline(), TimePoint::max());
}

TEST(Isolation, a_short_loss_of_all_peers_is_not_told) {
    Isolation isolation(start);
    EXPECT_EQ(isolation.look(1, start + 1s), Word::nothing);
    EXPECT_EQ(isolation.look(0, start + 1min), Word::nothing);
    EXPECT_EQ(isolation.look(1, start + 1min + 9s), Word::nothing); // Nor is its end.
    EXPECT_EQ(isolation.look(0, start + 2min), Word::nothing);
    EXPECT_EQ(isolation.look(0, start + 2min + 10s), Word::begins);
}

TEST(Isolation, B073_the_text_says_where_was_asked_and_what_helps) {
    InterfaceAddress const address{.text = "10.0.0.1", .ip = Ip::parse("10.0.0.1").value()};
    std::vector<Interface> const interfaces{
        {.name = "lo",
         .index = 1,
         .kind = InterfaceKind::loopback,
         .is_up = true,
         .is_running = true,
         .has_multicast = true,
         .addresses = {address}},
        {.name = "eth0",
         .index = 2,
         .is_up = true,
         .is_running = true,
         .has_multicast = true,
         .addresses = {address}},
        {.name = "docker0",
         .index = 3,
         .is_up = true,
         .is_running = false,
         .has_multicast = true,
         .addresses = {address}},
    };
    std::vector<DialFacts> const dials{
        {.address = Multiaddr::parse("/ip4/10.0.0.9/tcp/4001").value(),
         .given = true,
         .error = "connection refused"},
        {.address = Multiaddr::parse("/ip4/10.0.0.8/tcp/4001").value(), .error = "not ours to tell"
        },
    };
    auto const text = isolation_text(true, interfaces, dials);
    for (auto const* part :
         {"224.0.0.251",
          "ff02::fb",
          "on eth0;",
          "10.0.0.9",
          "connection refused",
          "--bootstrap-peers",
          "--namespace",
          "exo doctor"}) {
        EXPECT_NE(text.find(part), text.npos) << part;
    }
    EXPECT_EQ(text.find("docker0"), text.npos);
    EXPECT_EQ(text.find("10.0.0.8"), text.npos);
    EXPECT_NE(isolation_text(true, {}, {}).find("no network interface"), text.npos);
    EXPECT_NE(isolation_text(false, {}, {}).find("switched off"), text.npos);
}

} // namespace
} // namespace exo::net
