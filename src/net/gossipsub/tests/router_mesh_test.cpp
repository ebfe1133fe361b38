// SPDX-License-Identifier: Apache-2.0
//
// The router's rules of the mesh: GRAFT, PRUNE and their back-off, size.
#include "router_fixture.hpp"

namespace exo::net::gossipsub {
namespace {

TEST(RouterMesh, a_subscriber_is_grafted_at_once_below_5) {
    Node node({"a"});
    for (std::uint8_t number = 2; number <= 8; ++number) {
        node.router.peer_connected(peer(number));
        (void)node.sent_to(number);
        node.hear(number, subscription("a"));
        auto const rpc = node.sent_to(number);
        EXPECT_EQ(rpc.control().graft_size(), number <= 6 ? 1 : 0) << int{number};
    }
    EXPECT_EQ(node.router.mesh("a").size(), 5U);
    EXPECT_EQ(node.router.subscribers("a").size(), 7U);
}

TEST(RouterMesh, subscribing_grafts_6_of_those_who_are_there) {
    Node node;
    for (std::uint8_t number = 2; number <= 10; ++number) {
        node.meet(number, "a");
    }
    node.router.subscribe("a", start);
    EXPECT_EQ(node.router.mesh("a").size(), 6U);
    for (auto const& member : node.router.mesh("a")) {
        auto const rpc = rpc_of(node.router.next_rpc(member, start).value());
        EXPECT_EQ(rpc.subscriptions(0).topic(), "a");
        EXPECT_EQ(rpc.control().graft(0).topic(), "a");
    }
}

TEST(RouterMesh, a_graft_is_taken_from_subscribers_on_our_topics_only) {
    Node node({"a"});
    for (std::uint8_t number = 2; number <= 8; ++number) {
        node.meet(number, "a");
    }
    node.graft(8, "a");
    EXPECT_TRUE(node.router.mesh("a").contains(peer(8)));
    EXPECT_FALSE(node.router.has_rpc(peer(8)));
    node.graft(7, "never heard of it");
    node.router.peer_connected(peer(9));
    (void)node.sent_to(9);
    node.graft(9, "a"); // Has not subscribed.
    EXPECT_FALSE(node.router.mesh("a").contains(peer(9)));
    EXPECT_FALSE(node.router.has_rpc(peer(9)));
}

TEST(RouterMesh, is_full_at_12_and_says_so) {
    Node node({"a"});
    for (std::uint8_t number = 2; number <= 20; ++number) {
        node.meet(number, "a");
        node.graft(number, "a");
    }
    EXPECT_EQ(node.router.mesh("a").size(), 12U);
    auto const prune = node.sent_to(20).control().prune(0);
    EXPECT_EQ(prune.topic(), "a");
    EXPECT_EQ(prune.backoff_seconds(), 60U);
}

TEST(RouterMesh, after_a_prune_neither_side_grafts_until_the_backoff_is_over) {
    Node node({"a"});
    node.meet(2, "a");
    node.control(2, [](pb::Control& it) {
        it.add_prune()->set_topic("a");
        it.mutable_prune(0)->set_backoff_seconds(20);
    });
    EXPECT_TRUE(node.router.mesh("a").empty());
    node.heartbeat_after(19s);
    node.hear(2, subscription("a"));
    EXPECT_TRUE(node.router.mesh("a").empty());
    node.graft(2, "a"); // Too early: refused, and the time begins anew.
    EXPECT_EQ(node.sent_to(2).control().prune_size(), 1);
    node.heartbeat_after(60s);
    EXPECT_TRUE(node.router.mesh("a").empty());
    node.heartbeat_after(1s);
    EXPECT_EQ(node.router.mesh("a").size(), 1U);
    EXPECT_EQ(node.sent_to(2).control().graft_size(), 1);
}

TEST(RouterMesh, a_prune_without_a_backoff_means_60_seconds_and_a_huge_one_an_hour) {
    Node node({"a", "b"});
    node.meet(2, "a");
    node.hear(2, subscription("b"));
    node.control(2, [](pb::Control& it) {
        it.add_prune()->set_topic("a");
        it.add_prune()->set_topic("b");
        it.mutable_prune(1)->set_backoff_seconds(UINT64_MAX);
    });
    node.heartbeat_after(61s);
    EXPECT_EQ(node.router.mesh("a").size(), 1U);
    node.heartbeat_after(59min);
    EXPECT_EQ(node.router.mesh("b").size(), 1U);
}

TEST(RouterMesh, unsubscribing_prunes_for_10_seconds) {
    Node node({"a"});
    node.meet(2, "a");
    node.router.unsubscribe("a", node.now);
    auto const rpc = node.sent_to(2);
    EXPECT_EQ(rpc.control().prune(0).backoff_seconds(), 10U);
    EXPECT_FALSE(rpc.subscriptions(0).subscribe());
    node.router.subscribe("a", node.now);
    EXPECT_TRUE(node.router.mesh("a").empty());
    node.heartbeat_after(11s);
    EXPECT_EQ(node.router.mesh("a").size(), 1U);
}

TEST(RouterMesh, the_heartbeat_fills_it_to_6_when_it_has_less_than_5) {
    Node node({"a"});
    for (std::uint8_t number = 2; number <= 14; ++number) {
        node.meet(number, "a");
    }
    node.heartbeat_after(5s);
    EXPECT_EQ(node.router.mesh("a").size(), 5U);
    for (std::uint8_t number = 2; number <= 5; ++number) {
        node.router.peer_disconnected(peer(number));
    }
    EXPECT_EQ(node.router.mesh("a").size(), 1U);
    node.heartbeat_after(1s);
    EXPECT_EQ(node.router.mesh("a").size(), 6U);
    int grafts = 0;
    for (std::uint8_t number = 6; number <= 14; ++number) {
        grafts += node.sent_to(number).control().graft_size();
    }
    EXPECT_EQ(grafts, 5);
}

TEST(RouterMesh, a_peer_that_unsubscribes_or_leaves_is_out) {
    Node node({"a"});
    node.meet(2, "a");
    node.meet(3, "a");
    node.hear(2, subscription("a", false));
    node.router.peer_disconnected(peer(3));
    EXPECT_TRUE(node.router.mesh("a").empty());
    EXPECT_TRUE(node.router.subscribers("a").empty());
    EXPECT_TRUE(node.router.receive(peer(3), subscription("a"), start)); // Late; ignored.
    EXPECT_FALSE(node.router.next_rpc(peer(3), start));
}

TEST(RouterMesh, a_graft_is_taken_as_soon_as_the_backoff_is_over_but_ours_comes_a_second_later) {
    Node node({"a"});
    node.meet(2, "a");
    node.control(2, [](pb::Control& it) {
        it.add_prune()->set_topic("a");
        it.mutable_prune(0)->set_backoff_seconds(20);
    });
    node.heartbeat_after(20s);
    EXPECT_TRUE(node.router.mesh("a").empty());
    node.graft(2, "a");
    EXPECT_TRUE(node.router.mesh("a").contains(peer(2)));
    EXPECT_FALSE(node.router.has_rpc(peer(2)));
}

// The backoff of the one who hears of it begins later, by what the PRUNE took to arrive: without
// more patience than that, a GRAFT that travels faster would be refused for another minute.
TEST(RouterMesh, who_pruned_grafts_again_and_is_not_refused_though_the_graft_came_faster) {
    Node node({"a"});
    Router other(identity(2), Random(2), 1, start);
    other.subscribe("a", start);
    node.router.peer_connected(peer(2));
    other.peer_connected(peer(1));
    auto const exchange = [&](TimePoint now) {
        while (auto const rpc = node.router.next_rpc(peer(2), now)) {
            ASSERT_TRUE(other.receive(peer(1), *rpc, now));
        }
        while (auto const rpc = other.next_rpc(peer(1), now)) {
            ASSERT_TRUE(node.router.receive(peer(2), *rpc, now));
        }
    };
    exchange(start);
    exchange(start);
    ASSERT_TRUE(node.router.mesh("a").contains(peer(2)));
    node.router.unsubscribe("a", start);
    exchange(start + 500ms); // A slow moment of the network.
    node.router.subscribe("a", start + 600ms);
    exchange(start + 600ms);
    for (auto now = start + 1s; now <= start + 12s; now += 1s) {
        node.router.heartbeat(now);
        exchange(now);
    }
    EXPECT_TRUE(node.router.mesh("a").contains(peer(2)));
    EXPECT_TRUE(other.mesh("a").contains(peer(1)));
}

TEST(RouterMesh, a_peer_that_returns_without_a_word_has_the_topics_it_had) {
    Node node({"a"});
    node.meet(2, "a");
    node.router.peer_disconnected(peer(2));
    node.router.peer_connected(peer(2)); // rust, when it has not noticed that it was away.
    EXPECT_TRUE(node.router.subscribers("a").contains(peer(2)));
    node.heartbeat_after(1s);
    EXPECT_TRUE(node.router.mesh("a").contains(peer(2)));
    node.hear(2, subscription("b"));
    EXPECT_FALSE(node.router.subscribers("a").contains(peer(2))); // It has said what it has.
    EXPECT_FALSE(node.router.mesh("a").contains(peer(2)));
    EXPECT_TRUE(node.router.subscribers("b").contains(peer(2)));
}

TEST(RouterMesh, a_peer_that_returns_and_does_not_begin_with_its_topics_keeps_them) {
    Node node({"a"});
    node.meet(2, "a");
    node.router.peer_disconnected(peer(2));
    node.router.peer_connected(peer(2));
    node.hear(2, publication(*said_by(3, "hello").encoded));
    node.hear(2, subscription("b"));
    EXPECT_TRUE(node.router.subscribers("a").contains(peer(2)));
    EXPECT_TRUE(node.router.subscribers("b").contains(peer(2)));
}

TEST(RouterLimits, of_those_who_left_and_their_topics_are_kept) {
    Node node({"a"}, {.departed_max = 1, .departed_topics_max = 1});
    node.meet(2, "a");
    node.meet(3, "a");
    node.meet(4, "a");
    node.hear(4, subscription("b"));
    for (std::uint8_t number = 2; number <= 4; ++number) {
        node.router.peer_disconnected(peer(number));
    }
    for (std::uint8_t number = 2; number <= 4; ++number) {
        node.router.peer_connected(peer(number));
    }
    EXPECT_EQ(node.router.subscribers("a"), std::set{peer(3)});
}

TEST(RouterMesh, a_backoff_outlives_the_connection) {
    Node node({"a"});
    node.meet(2, "a");
    node.control(2, [](pb::Control& it) { it.add_prune()->set_topic("a"); });
    node.router.peer_disconnected(peer(2));
    node.meet(2, "a");
    node.graft(2, "a");
    EXPECT_TRUE(node.router.mesh("a").empty());
    EXPECT_EQ(node.sent_to(2).control().prune_size(), 1);
}

TEST(RouterMesh, no_peers_are_exchanged_and_those_offered_are_not_looked_at) {
    Node node({"a"});
    node.meet(2, "a");
    // PRUNE { topic "a", peers { id "x" }, backoff 20 }
    node.hear(2, hex("1a 0c 22 0a 0a0161 12030a0178 1814"));
    EXPECT_TRUE(node.router.mesh("a").empty());
    node.heartbeat_after(21s);
    EXPECT_EQ(node.router.mesh("a").size(), 1U);
}

TEST(RouterMesh, a_prune_of_a_topic_that_is_not_ours_leaves_nothing_behind) {
    Node node;
    node.meet(2, "a");
    node.control(2, [](pb::Control& it) { it.add_prune()->set_topic("a"); });
    node.router.subscribe("a", node.now);
    EXPECT_EQ(node.router.mesh("a").size(), 1U);
}

} // namespace
} // namespace exo::net::gossipsub
