// SPDX-License-Identifier: Apache-2.0
//
// The router's rules one by one: announcing, the mesh, forwarding, gossip, limits.
#include "gossip_fixture.hpp"

#include <functional>

namespace exo::net::gossipsub {
namespace {

constexpr std::uint64_t first_number = 1'000;

// A router that is node 1, and what one test does with it again and again.
struct Node {
    Router router;
    TimePoint now = start;

    explicit Node(std::vector<std::string> const& topics = {}, Limits limits = {})
        : router(identity(1), Random(1), first_number, start, limits) {
        for (auto const& topic : topics) {
            router.subscribe(topic, start);
        }
    }

    // All that waits for the peer, as one RPC.
    pb::Rpc sent_to(std::uint8_t number) {
        pb::Rpc all;
        while (auto const bytes = router.next_rpc(peer(number), now)) {
            all.MergeFrom(rpc_of(*bytes));
        }
        return all;
    }

    void hear(std::uint8_t number, Bytes const& rpc) {
        EXPECT_TRUE(router.receive(peer(number), rpc, now));
    }

    // Connected and subscribed; what was said about that has been sent.
    void meet(std::uint8_t number, std::string const& topic, Version version = Version::v1_2) {
        router.peer_connected(peer(number));
        router.peer_speaks(peer(number), version);
        hear(number, subscription(topic));
        (void)sent_to(number);
    }

    void control(std::uint8_t number, std::function<void(pb::Control&)> const& fill) {
        pb::Rpc rpc;
        fill(*rpc.mutable_control());
        hear(number, bytes_of(rpc));
    }

    void graft(std::uint8_t number, std::string const& topic) {
        control(number, [&](pb::Control& it) { it.add_graft()->set_topic(topic); });
    }

    void heartbeat_after(Duration time) {
        now += time;
        router.heartbeat(now);
    }

    std::vector<std::string> events() {
        std::vector<std::string> texts;
        while (auto event = router.next_event()) {
            texts.push_back(event->topic + ": " + std::string(as_text(event->data)));
        }
        return texts;
    }
};

SignedMessage said_by(std::uint8_t author, std::string const& text, std::uint64_t number = 1) {
    return sign_message(identity(author), number, "a", as_bytes(text));
}

Bytes rpc_of_message(SignedMessage const& message) {
    return publication(*message.encoded);
}

std::vector<std::string> published(pb::Rpc const& rpc) {
    std::vector<std::string> texts;
    for (auto const& bytes : rpc.publish()) {
        texts.emplace_back(as_text(parse_message(as_bytes(bytes)).value().data));
    }
    return texts;
}

using Texts = std::vector<std::string>;

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
    node.heartbeat_after(59s);
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
    node.heartbeat_after(60s);
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
    node.heartbeat_after(10s);
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
    for (auto const number : {std::uint8_t{4}, std::uint8_t{5}}) {
        EXPECT_EQ(node.sent_to(number).publish(0), std::string(as_text(*message.encoded)));
    }
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

TEST(RouterGossip, tells_peers_outside_the_mesh_what_they_may_ask_for) {
    Node node({"a"});
    for (std::uint8_t number = 2; number <= 20; ++number) {
        node.meet(number, "a");
    }
    auto const message = said_by(2, "hello");
    node.hear(2, rpc_of_message(message));
    node.heartbeat_after(5s);
    std::size_t told = 0;
    for (std::uint8_t number = 2; number <= 20; ++number) {
        bool const is_member = node.router.mesh("a").contains(peer(number));
        auto const rpc = node.sent_to(number);
        for (auto const& ihave : rpc.control().ihave()) {
            EXPECT_FALSE(is_member);
            EXPECT_EQ(ihave.topic(), "a");
            EXPECT_EQ(ihave.ids(0), message.id);
            ++told;
        }
    }
    EXPECT_EQ(told, 6U);
}

TEST(RouterGossip, is_silent_after_3_heartbeats_but_the_message_can_be_had_for_5) {
    Node node({"a"}, {.mesh_size = 0, .mesh_low = 0, .mesh_high = 0});
    node.meet(2, "a");
    auto const message = said_by(3, "hello");
    node.hear(2, rpc_of_message(message));
    for (int beat = 1; beat <= 6; ++beat) {
        node.heartbeat_after(1s);
        EXPECT_EQ(node.sent_to(2).control().ihave_size(), beat <= 3 ? 1 : 0) << beat;
        node.control(2, [&](pb::Control& it) { it.add_iwant()->add_ids(message.id); });
        bool const is_sent = beat <= 3; // Three times at most, and in time.
        EXPECT_EQ(node.sent_to(2).publish_size(), is_sent ? 1 : 0) << beat;
    }
}

TEST(RouterGossip, asks_one_peer_for_what_is_new_and_another_after_3_seconds) {
    Node node({"a"});
    node.meet(2, "a");
    node.meet(3, "a");
    auto const has = [&](std::uint8_t number, std::string const& topic, std::string const& id) {
        node.control(number, [&](pb::Control& it) {
            it.add_ihave()->set_topic(topic);
            it.mutable_ihave(0)->add_ids(id);
        });
        return node.sent_to(number).control().iwant_size();
    };
    EXPECT_EQ(has(2, "a", "x"), 1);
    EXPECT_EQ(has(3, "a", "x"), 0);
    EXPECT_EQ(has(3, "another topic", "y"), 0);
    EXPECT_EQ(has(3, "a", std::string(300, 'z')), 0);
    node.heartbeat_after(3s);
    EXPECT_EQ(has(3, "a", "x"), 1);
    auto const message = said_by(4, "hello");
    node.hear(2, rpc_of_message(message));
    EXPECT_EQ(has(3, "a", message.id), 0);
}

TEST(RouterGossip, a_large_message_is_announced_as_unwanted_to_others_who_speak_1_2) {
    Node node({"a"});
    node.meet(2, "a");
    node.meet(3, "a");
    node.meet(4, "a");
    node.meet(5, "a", Version::v1_1);
    auto const large = said_by(3, std::string(1001, 'x'), 1);
    node.hear(2, rpc_of_message(large));
    EXPECT_EQ(node.sent_to(2).control().idontwant_size(), 0);
    EXPECT_EQ(node.sent_to(3).control().idontwant_size(), 0);
    EXPECT_EQ(node.sent_to(4).control().idontwant(0).ids(0), large.id);
    EXPECT_EQ(node.sent_to(5).control().idontwant_size(), 0);
    node.hear(2, rpc_of_message(said_by(3, std::string(1000, 'x'), 2)));
    EXPECT_EQ(node.sent_to(4).control().idontwant_size(), 0);
}

TEST(RouterGossip, what_a_peer_does_not_want_is_not_sent_even_when_it_waits_already) {
    Node node({"a"});
    node.meet(2, "a");
    node.meet(3, "a");
    auto const message = said_by(4, "hello");
    node.hear(2, rpc_of_message(message));
    ASSERT_TRUE(node.router.has_rpc(peer(3)));
    node.control(3, [&](pb::Control& it) { it.add_idontwant()->add_ids(message.id); });
    EXPECT_EQ(node.sent_to(3).publish_size(), 0);
}

TEST(RouterLimits, of_topics_control_and_ids_are_kept) {
    Node node({"a"}, {.topics_max = 2, .ihave_max = 3, .ids_max = 4, .grafts_max = 2});
    node.router.peer_connected(peer(2));
    for (char const* topic : {"a", "b", "c", "b"}) {
        node.hear(2, subscription(topic));
    }
    node.hear(2, subscription(std::string(1025, 'x')));
    EXPECT_TRUE(node.router.subscribers("c").empty());
    EXPECT_EQ(node.router.counters().over_limit, 2U);
    (void)node.sent_to(2);
    node.control(2, [](pb::Control& it) {
        for (int i = 0; i < 5; ++i) {
            auto& ihave = *it.add_ihave();
            ihave.set_topic("a");
            for (int j = 0; j < 3; ++j) {
                ihave.add_ids(std::to_string(10 * i + j));
            }
        }
    });
    EXPECT_EQ(node.sent_to(2).control().iwant(0).ids_size(), 4);
    node.heartbeat_after(1s); // All counts begin anew.
    node.control(2, [](pb::Control& it) {
        it.add_ihave()->set_topic("a");
        it.mutable_ihave(0)->add_ids("new");
    });
    EXPECT_EQ(node.sent_to(2).control().iwant(0).ids_size(), 1);
}

TEST(RouterLimits, a_peer_that_does_not_read_loses_old_messages) {
    Node node({}, {.rpc_bytes_max = 10'000, .queue_bytes_max = 10'000});
    node.meet(2, "a");
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(node.router.publish("a", Bytes(1000, 'x'), node.now));
    }
    EXPECT_EQ(node.router.counters().queue_dropped, 12U);
    node.now += 11s;
    EXPECT_EQ(node.sent_to(2).publish_size(), 0);
    EXPECT_EQ(node.router.counters().queue_dropped, 20U);
}

TEST(RouterTime, heartbeats_come_after_5_seconds_and_then_each_second) {
    Node node;
    EXPECT_EQ(node.router.deadline(), start + 5s);
    node.heartbeat_after(5s);
    EXPECT_EQ(node.router.deadline(), start + 6s);
}

TEST(RouterVersion, is_known_by_the_protocols_name) {
    EXPECT_EQ(version_of("/meshsub/1.2.0"), Version::v1_2);
    EXPECT_EQ(version_of("/meshsub/1.1.0"), Version::v1_1);
    EXPECT_EQ(version_of("/meshsub/1.0.0"), Version::v1_0);
    EXPECT_EQ(version_of("/floodsub/1.0.0"), std::nullopt);
}

} // namespace
} // namespace exo::net::gossipsub
