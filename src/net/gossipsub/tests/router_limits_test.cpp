// SPDX-License-Identifier: Apache-2.0
//
// What a peer may cost: every limit is reached, and the peer stays.
#include "router_fixture.hpp"

namespace exo::net::gossipsub {
namespace {

TEST(RouterLimits, of_topics_and_ihaves_are_kept) {
    Node node({"a"}, {.topics_max = 2, .ihave_max = 3, .ids_max = 4});
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

TEST(RouterLimits, messages_that_wait_are_bounded_by_bytes) {
    Node node(
        {},
        {.rpc_bytes_max = 10'000,
         .outbox =
             {.queue_bytes_max = 10 * (1000 + 130 + message_overhead_bytes),
              .rpc_bytes_packed = 10'000}}
    );
    node.meet(2, "a");
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(node.router.publish("a", Bytes(1000, 'x'), node.now));
    }
    EXPECT_EQ(node.sent_to(2).publish_size(), 10);
    EXPECT_EQ(node.router.counters().queue_dropped, 10U);
}

TEST(RouterLimits, our_own_messages_wait_5_seconds_and_those_of_others_1) {
    Node node({"a"});
    node.meet(2, "a");
    node.meet(3, "a");
    ASSERT_TRUE(node.router.publish("a", as_bytes("own"), node.now));
    node.hear(3, rpc_of_message(said_by(3, "of another")));
    node.now += 1s;
    EXPECT_EQ(published(node.sent_to(2)), (Texts{"own", "of another"}));
    ASSERT_TRUE(node.router.publish("a", as_bytes("own"), node.now));
    node.hear(3, rpc_of_message(said_by(3, "of another", 2)));
    node.now += 1001ms;
    EXPECT_EQ(published(node.sent_to(2)), Texts{"own"});
    EXPECT_EQ(node.router.counters().queue_dropped, 1U);
    ASSERT_TRUE(node.router.publish("a", as_bytes("own"), node.now));
    node.now += 5001ms;
    EXPECT_TRUE(node.router.has_rpc(peer(2)));
    EXPECT_EQ(node.sent_to(2).publish_size(), 0);
}

TEST(RouterLimits, what_was_asked_for_waits_5_seconds_and_is_sent_3_times) {
    Node node({"a"});
    node.meet(2, "a");
    ASSERT_TRUE(node.router.publish("a", as_bytes("own"), node.now));
    (void)node.sent_to(2);
    for (int i = 0; i < 5; ++i) {
        node.control(2, [](pb::Control& it) {
            it.add_iwant()->add_ids(message_id(peer(1), first_number));
        });
    }
    node.now += 5s;
    EXPECT_EQ(node.sent_to(2).publish_size(), 3);
}

TEST(RouterLimits, of_bad_messages_100_a_heartbeat_are_checked_and_then_none_of_that_peer) {
    Node node({"a"});
    node.meet(2, "a");
    node.meet(3, "a");
    Bytes const nonsense(20, 0xff);
    for (int i = 0; i < 150; ++i) {
        node.hear(2, publication(nonsense));
    }
    auto const good = said_by(4, "good");
    node.hear(2, rpc_of_message(good));
    EXPECT_TRUE(node.events().empty());
    EXPECT_EQ(node.router.counters().messages_rejected, 100U);
    EXPECT_EQ(node.router.counters().over_limit, 51U);
    node.hear(3, rpc_of_message(good)); // Another peer is not concerned.
    EXPECT_EQ(node.events().size(), 1U);
    node.heartbeat_after(1s);
    node.hear(2, rpc_of_message(said_by(4, "again", 2)));
    EXPECT_EQ(node.events().size(), 1U);
}

TEST(RouterLimits, of_one_rpc_1024_messages_are_read) {
    Node node({"a"}, {.rejected_max = 10'000});
    node.meet(2, "a");
    pb::Rpc rpc;
    for (int i = 0; i < 1025; ++i) {
        rpc.add_publish("nonsense");
    }
    node.hear(2, bytes_of(rpc));
    EXPECT_EQ(node.router.counters().messages_rejected, 1024U);
    EXPECT_EQ(node.router.counters().over_limit, 1U);
}

TEST(RouterLimits, of_one_rpc_32768_entries_are_read) {
    Node node({"a"}, {.topics_max = 100'000});
    node.router.peer_connected(peer(2));
    pb::Rpc rpc;
    for (int i = 0; i < 32'769; ++i) {
        auto& entry = *rpc.add_subscriptions();
        entry.set_subscribe(true);
        entry.set_topic(std::to_string(i));
    }
    node.hear(2, bytes_of(rpc));
    EXPECT_EQ(node.router.subscribers("32767").size(), 1U);
    EXPECT_TRUE(node.router.subscribers("32768").empty());
    EXPECT_EQ(node.router.counters().over_limit, 1U);
}

TEST(RouterLimits, of_iwant_and_idontwant_5000_ids_a_heartbeat_are_looked_at) {
    Node node({"a"});
    node.meet(2, "a");
    auto const fill = [](auto& entry) {
        for (int i = 0; i < 5001; ++i) {
            entry.add_ids("id " + std::to_string(i));
        }
    };
    node.control(2, [&](pb::Control& it) { fill(*it.add_iwant()); });
    EXPECT_EQ(node.router.counters().over_limit, 1U);
    node.control(2, [&](pb::Control& it) { fill(*it.add_idontwant()); });
    EXPECT_EQ(node.router.counters().over_limit, 2U);
    node.heartbeat_after(1s);
    node.control(2, [&](pb::Control& it) { it.add_iwant()->add_ids("x"); });
    EXPECT_EQ(node.router.counters().over_limit, 2U);
}

TEST(RouterLimits, of_one_ihave_5000_ids_are_looked_at_also_when_they_are_known) {
    Node node({"a"});
    node.meet(2, "a");
    auto const known = said_by(3, "hello");
    node.hear(2, rpc_of_message(known));
    (void)node.sent_to(2);
    node.control(2, [&](pb::Control& it) {
        auto& ihave = *it.add_ihave();
        ihave.set_topic("a");
        for (int i = 0; i < 5000; ++i) {
            ihave.add_ids(known.id);
        }
        ihave.add_ids("new");
    });
    EXPECT_FALSE(node.router.has_rpc(peer(2)));
}

TEST(RouterLimits, of_grafts_1024_a_heartbeat_are_looked_at) {
    Node node({"a"});
    node.meet(2, "a");
    node.control(2, [](pb::Control& it) {
        for (int i = 0; i < 1024; ++i) {
            it.add_graft()->set_topic("another");
        }
        it.add_graft()->set_topic("a");
    });
    EXPECT_EQ(node.router.counters().over_limit, 1U);
}

TEST(RouterLimits, ids_over_256_letters_are_ignored) {
    Node node({"a"});
    node.meet(2, "a");
    node.control(2, [](pb::Control& it) {
        it.add_ihave()->set_topic("a");
        it.mutable_ihave(0)->add_ids(std::string(257, 'x'));
        it.mutable_ihave(0)->add_ids(std::string(256, 'x'));
    });
    ASSERT_EQ(node.sent_to(2).control().iwant(0).ids_size(), 1);
}

TEST(RouterLimits, backoffs_are_4096_and_those_that_end_first_go) {
    Node node({"a", "b"}, {.backoffs_max = 2});
    for (std::uint8_t number = 2; number <= 4; ++number) {
        node.meet(number, "a");
        node.control(number, [&](pb::Control& it) {
            it.add_prune()->set_topic("a");
            it.mutable_prune(0)->set_backoff_seconds(number == 3 ? 10 : 100);
        });
    }
    node.heartbeat_after(5s);
    EXPECT_EQ(node.router.mesh("a"), std::set{peer(3)});
}

TEST(RouterLimits, a_flood_of_messages_makes_the_oldest_ones_unavailable) {
    Node node({"a"}, {.history_bytes_max = 2 * (message_overhead_bytes + 200)});
    node.meet(2, "a");
    for (std::uint64_t i = 0; i < 3; ++i) {
        ASSERT_TRUE(node.router.publish("a", as_bytes("hello"), node.now));
    }
    (void)node.sent_to(2);
    node.control(2, [](pb::Control& it) {
        it.add_iwant()->add_ids(message_id(peer(1), first_number));
        it.add_iwant()->add_ids(message_id(peer(1), first_number + 2));
    });
    EXPECT_EQ(node.sent_to(2).publish_size(), 1);
}

} // namespace
} // namespace exo::net::gossipsub
