// SPDX-License-Identifier: Apache-2.0
//
// The router's rules one by one: announcing, publishing, forwarding.
#include "router_fixture.hpp"

namespace exo::net::gossipsub {
namespace {

TEST(RouterPeers, hear_our_subscriptions_when_they_connect_and_when_we_subscribe) {
    Node node({"a", "b"});
    node.router.peer_connected(peer(2));
    EXPECT_EQ(node.router.ready_peers(), std::vector{peer(2)});
    auto const hello = node.sent_to(2);
    ASSERT_EQ(hello.subscriptions_size(), 2);
    EXPECT_EQ(hello.subscriptions(1).topic(), "b");
    EXPECT_TRUE(hello.subscriptions(1).subscribe());
    EXPECT_TRUE(node.router.ready_peers().empty());
    node.router.peer_connected(peer(2)); // A second connection with the same peer.
    node.router.subscribe("b", start);
    EXPECT_FALSE(node.router.has_rpc(peer(2)));
    node.router.subscribe("c", start);
    EXPECT_EQ(node.sent_to(2).subscriptions(0).topic(), "c");
    node.router.unsubscribe("c", start);
    node.router.unsubscribe("c", start);
    EXPECT_FALSE(node.sent_to(2).subscriptions(0).subscribe());
}

TEST(RouterPeers, are_told_everything_again_on_a_new_stream) {
    Node node({"a"});
    node.meet(2, "a");
    node.router.announce_again(peer(2));
    auto const rpc = node.sent_to(2);
    EXPECT_EQ(rpc.subscriptions(0).topic(), "a");
    EXPECT_EQ(rpc.control().graft(0).topic(), "a");
    node.router.announce_again(peer(7)); // Not connected: nothing.
}

TEST(RouterPublish, goes_to_every_subscriber_in_the_mesh_or_not) {
    Node node({"a"});
    for (std::uint8_t number = 2; number <= 10; ++number) {
        node.meet(number, "a");
    }
    node.meet(11, "b");
    ASSERT_TRUE(node.router.publish("a", as_bytes("hello"), node.now));
    for (std::uint8_t number = 2; number <= 10; ++number) {
        EXPECT_EQ(published(node.sent_to(number)), Texts{"hello"}) << int{number};
    }
    EXPECT_FALSE(node.router.has_rpc(peer(11)));
    EXPECT_TRUE(node.events().empty());
}

TEST(RouterPublish, needs_no_subscription_and_no_peer_and_counts_up) {
    Node node;
    EXPECT_TRUE(node.router.publish("a", as_bytes("nobody hears"), node.now));
    node.meet(2, "a");
    ASSERT_TRUE(node.router.publish("a", as_bytes("hello"), node.now));
    auto const rpc = node.sent_to(2);
    auto const message = parse_message(as_bytes(rpc.publish(0))).value();
    EXPECT_EQ(message.id, message_id(peer(1), first_number + 1));
    EXPECT_TRUE(verify_message(message));
}

TEST(RouterPublish, is_refused_when_the_rpc_would_exceed_8_mib) {
    Node node;
    node.meet(2, "a");
    // specs/libp2p.md 9: of this size the RPC is just within the limit.
    Bytes const most(8'388'470, 'x');
    ASSERT_TRUE(node.router.publish("a", most, node.now));
    EXPECT_LE(node.router.next_rpc(peer(2), node.now).value().size(), 8U * 1024 * 1024);
    Bytes const lost_by_rust(8'388'500, 'x');
    auto const result = node.router.publish("a", lost_by_rust, node.now);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::limit);
    EXPECT_FALSE(node.router.publish("a", Bytes(8'388'609), node.now));
    EXPECT_FALSE(node.router.has_rpc(peer(2)));
}

TEST(RouterMessages, are_delivered_once_and_forwarded_to_the_mesh_but_not_back) {
    Node node({"a"});
    for (std::uint8_t number = 2; number <= 5; ++number) {
        node.meet(number, "a");
    }
    auto const message = said_by(3, "hello");
    node.hear(2, rpc_of_message(message));
    EXPECT_EQ(node.events(), Texts{"a: hello"});
    node.hear(4, rpc_of_message(message));
    EXPECT_TRUE(node.events().empty());
    EXPECT_EQ(node.router.counters().duplicates, 1U);
    EXPECT_FALSE(node.router.has_rpc(peer(2))); // Came from there.
    EXPECT_FALSE(node.router.has_rpc(peer(3))); // Its author.
    EXPECT_FALSE(published(node.sent_to(5)).empty());
    EXPECT_TRUE(published(node.sent_to(4)).empty()); // Has it.
}

TEST(RouterMessages, are_forwarded_byte_for_byte) {
    Node node({"a"});
    node.meet(2, "a");
    node.meet(4, "a");
    auto encoded = *said_by(3, "hello").encoded;
    append(encoded, hex("f80705")); // A field that we do not know.
    node.hear(2, publication(encoded));
    EXPECT_EQ(node.sent_to(4).publish(0), std::string(as_text(encoded)));
}

TEST(RouterMessages, of_ours_that_come_back_and_of_other_topics_are_dropped) {
    Node node({"b"});
    node.meet(2, "a");
    node.hear(2, rpc_of_message(said_by(3, "not our topic")));
    node.router.subscribe("a", node.now);
    node.hear(2, rpc_of_message(said_by(1, "our own")));
    EXPECT_TRUE(node.events().empty());
    EXPECT_EQ(node.router.counters(), Counters{});
}

TEST(RouterMessages, that_are_bad_are_counted_and_hide_neither_their_neighbours_nor_the_true_one) {
    Node node({"a"});
    node.meet(2, "a");
    auto const good = said_by(3, "good");
    auto const text = std::string(as_text(*said_by(4, "true").encoded));
    auto forged = text;
    forged[forged.find("true")] = 'T';
    pb::Rpc rpc;
    rpc.add_publish(forged);
    rpc.add_publish("\xff\xff");
    rpc.add_publish(std::string(as_text(*good.encoded)));
    rpc.add_publish(text);
    node.hear(2, bytes_of(rpc));
    EXPECT_EQ(node.events(), (Texts{"a: good", "a: true"}));
    EXPECT_EQ(node.router.counters().messages_rejected, 2U);
}

TEST(RouterMessages, are_remembered_for_60_seconds) {
    Node node({"a"});
    node.meet(2, "a");
    node.hear(2, rpc_of_message(said_by(3, "hello")));
    node.heartbeat_after(59s);
    node.hear(2, rpc_of_message(said_by(3, "hello")));
    EXPECT_EQ(node.events().size(), 1U);
    node.heartbeat_after(1s);
    node.hear(2, rpc_of_message(said_by(3, "hello")));
    EXPECT_EQ(node.events().size(), 1U);
}

TEST(RouterRpc, that_cannot_be_read_is_an_error_of_the_stream) {
    Node node;
    node.meet(2, "a");
    auto const result = node.router.receive(peer(2), as_bytes("\xff\xff\xff"), start);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::protocol);
    EXPECT_EQ(node.router.counters().rpcs_malformed, 1U);
    EXPECT_FALSE(node.router.receive(peer(2), Bytes(8 * 1024 * 1024 + 1), start));
    EXPECT_EQ(node.router.subscribers("a").size(), 1U); // The peer stays.
}

TEST(RouterRpc, of_go_with_unknown_fields_is_read) {
    Node node;
    node.router.peer_connected(peer(2));
    node.hear(2, hex("0a09080112016118002000"));
    EXPECT_EQ(node.router.subscribers("a").size(), 1U);
}

TEST(RouterTime, heartbeats_come_after_5_seconds_and_then_each_second) {
    Node node;
    EXPECT_EQ(node.router.deadline(), start + 5s);
    node.heartbeat_after(5s);
    EXPECT_EQ(node.router.deadline(), start + 6s);
}

TEST(RouterTime, messages_of_others_wait_5_ms_after_an_rpc_and_go_with_whatever_is_urgent) {
    Node node({"a"});
    node.meet(2, "a");
    node.meet(3, "a");
    using Peers = std::vector<PeerId>;
    (void)node.router.peers_to_wake();
    EXPECT_EQ(node.router.rpc_due(peer(2)), TimePoint::max());
    node.now += 1ms;
    node.hear(3, rpc_of_message(said_by(3, "of another", 1)));
    EXPECT_EQ(node.router.rpc_due(peer(2)), start + 5ms);
    EXPECT_EQ(node.router.peers_to_wake(), Peers{peer(2)});
    node.hear(3, rpc_of_message(said_by(3, "of another", 2)));
    EXPECT_EQ(node.router.peers_to_wake(), Peers{}); // It knows.
    ASSERT_TRUE(node.router.publish("a", as_bytes("own"), node.now));
    EXPECT_LE(node.router.rpc_due(peer(2)), node.now);
    EXPECT_EQ(node.router.peers_to_wake(), (Peers{peer(2), peer(3)}));
    EXPECT_EQ(published(node.sent_to(2)).size(), 3U);
    EXPECT_EQ(node.router.rpc_due(peer(2)), TimePoint::max());
    node.now += 1s; // Nothing was sent lately: at once.
    node.hear(3, rpc_of_message(said_by(3, "of another", 3)));
    EXPECT_LE(node.router.rpc_due(peer(2)), node.now);
}

TEST(RouterVersion, is_known_by_the_protocols_name) {
    EXPECT_EQ(version_of("/meshsub/1.2.0"), Version::v1_2);
    EXPECT_EQ(version_of("/meshsub/1.1.0"), Version::v1_1);
    EXPECT_EQ(version_of("/meshsub/1.0.0"), Version::v1_0);
    EXPECT_EQ(version_of("/floodsub/1.0.0"), std::nullopt);
}

} // namespace
} // namespace exo::net::gossipsub
