// SPDX-License-Identifier: Apache-2.0
//
// What is kept of links, and of who sees whom.
#include "net/diagnosis/link_log.hpp"
#include "net/diagnosis/link_watch.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

TimePoint const start{};

Bytes packet(std::uint8_t first) {
    return Bytes{first, 2, 3};
}

PeerId peer(char const* text) {
    return PeerId::parse(text).value();
}

PeerId const a = peer("12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5");
PeerId const b = peer("12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq");

Neighbour node(PeerId const& id, std::vector<PeerId> const& links) {
    Neighbour neighbour{.peer = id};
    for (auto const& link : links) {
        neighbour.links.push_back({.peer = link, .ip = "10.0.0.1"});
    }
    return neighbour;
}

TEST(LinkLog, counts_its_own_packets_that_come_back_once_and_nobody_elses) {
    LinkLog log({.interface = "eth0"});
    log.sent(packet(1));
    log.sent(packet(2));
    log.received(packet(2), "10.0.0.1", true, start);
    log.received(packet(2), "10.0.0.1", true, start);
    log.received(packet(9), "10.0.0.1", true, start); // Of another node of this machine.
    EXPECT_EQ(log.facts().packets_sent, 2u);
    EXPECT_EQ(log.facts().packets_looped, 1u);
    EXPECT_TRUE(log.facts().heard.empty());
}

TEST(LinkLog, remembers_who_was_heard_and_when_up_to_its_limit) {
    LinkLog log({.interface = "eth0"});
    for (std::size_t i = 0; i < heard_max + 10; ++i) {
        log.received(packet(1), "10.0.0." + std::to_string(i), false, start + i * 1s);
    }
    auto const& heard = log.facts().heard;
    EXPECT_EQ(heard.size(), heard_max);
    EXPECT_FALSE(heard.contains("10.0.0.9"));
    EXPECT_EQ(heard.at("10.0.0.10"), start + 10s);
}

TEST(LinkLog, remembers_few_twins) {
    LinkLog log({.interface = "eth0"});
    for (std::uint16_t port = 1; port <= twins_max + 2; ++port) {
        EXPECT_TRUE(log.met_twin(Multiaddr::tcp("10.0.0.2", port).value(), start + port * 1s));
    }
    EXPECT_EQ(log.facts().twins.size(), twins_max);
    EXPECT_FALSE(log.met_twin(Multiaddr::tcp("10.0.0.2", 3).value(), start + 60s));
}

TEST(LinkWatch, B079_knows_since_when_a_link_has_been_one_way) {
    LinkWatch watch;
    std::vector<Neighbour> nodes{node(a, {b}), node(b, {})};
    watch.update(nodes, start);
    watch.update(nodes, start + 5s);
    auto missing = watch.missing();
    ASSERT_EQ(missing.size(), 1u);
    EXPECT_EQ(missing[0].from, a);
    EXPECT_EQ(missing[0].to, b);
    EXPECT_TRUE(missing[0].one_way);
    EXPECT_EQ(missing[0].since, start);

    nodes[1] = node(b, {a});
    watch.update(nodes, start + 10s);
    EXPECT_TRUE(watch.missing().empty());
    nodes = {node(a, {}), node(b, {})};
    watch.update(nodes, start + 20s);
    missing = watch.missing();
    ASSERT_EQ(missing.size(), 1u);
    EXPECT_FALSE(missing[0].one_way);
    EXPECT_EQ(missing[0].since, start + 20s);
}

TEST(LinkWatch, forgets_nodes_that_are_gone) {
    LinkWatch watch;
    watch.update(std::vector<Neighbour>{node(a, {b}), node(b, {})}, start);
    watch.update(std::vector<Neighbour>{node(a, {b})}, start + 1s);
    EXPECT_TRUE(watch.missing().empty());
}

} // namespace
} // namespace exo::net
