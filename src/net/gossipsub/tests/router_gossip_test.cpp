// SPDX-License-Identifier: Apache-2.0
//
// The router's rules of gossip: IHAVE, IWANT, IDONTWANT.
#include "router_fixture.hpp"

namespace exo::net::gossipsub {
namespace {

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

TEST(RouterGossip, what_is_to_be_forgotten_is_neither_offered_nor_sent) {
    Node node({"a"}, {.mesh_size = 0, .mesh_low = 0, .mesh_high = 0});
    node.meet(2, "a");
    auto const message = said_by(3, "hello");
    node.hear(2, rpc_of_message(message));
    node.router.forget_messages();
    node.heartbeat_after(1s);
    EXPECT_EQ(node.sent_to(2).control().ihave_size(), 0);
    node.control(2, [&](pb::Control& it) { it.add_iwant()->add_ids(message.id); });
    EXPECT_EQ(node.sent_to(2).publish_size(), 0);
}

TEST(RouterGossip, asks_one_peer_for_what_is_new_and_another_when_it_does_not_come) {
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

TEST(RouterGossip, a_quarter_of_those_outside_the_mesh_is_told_when_they_are_many) {
    Node node({"a"});
    for (std::uint8_t number = 2; number <= 66; ++number) {
        node.meet(number, "a");
    }
    ASSERT_TRUE(node.router.publish("a", as_bytes("hello"), node.now));
    for (std::uint8_t number = 2; number <= 66; ++number) {
        (void)node.sent_to(number);
    }
    node.heartbeat_after(5s);
    std::size_t told = 0;
    for (std::uint8_t number = 2; number <= 66; ++number) {
        told += static_cast<std::size_t>(node.sent_to(number).control().ihave_size());
    }
    EXPECT_EQ(told, (65U - 5U) / 4);
}

// A message is told of at three heartbeats: the third must find another peer to ask.
TEST(RouterGossip, who_is_gone_or_silent_for_a_second_and_a_half_is_not_waited_for) {
    Node node({"a"});
    for (std::uint8_t number = 2; number <= 4; ++number) {
        node.meet(number, "a");
    }
    auto const asked = [&](std::uint8_t number) {
        node.control(number, [&](pb::Control& it) {
            it.add_ihave()->set_topic("a");
            it.mutable_ihave(0)->add_ids("x");
        });
        return node.sent_to(number).control().iwant_size() > 0;
    };
    EXPECT_TRUE(asked(2));
    node.heartbeat_after(1s);
    EXPECT_FALSE(asked(3));
    node.heartbeat_after(1s);
    EXPECT_TRUE(asked(3));
    EXPECT_FALSE(asked(4));
    node.router.peer_disconnected(peer(3));
    EXPECT_TRUE(asked(4));
}

TEST(RouterGossip, what_a_peer_has_sent_itself_need_not_wait_for_it_any_longer) {
    Node node({"a"});
    node.meet(2, "a");
    node.meet(3, "a");
    auto const message = said_by(4, "hello");
    node.hear(2, rpc_of_message(message));
    ASSERT_TRUE(node.router.has_rpc(peer(3)));
    node.hear(3, rpc_of_message(message)); // The two have crossed.
    EXPECT_EQ(node.sent_to(3).publish_size(), 0);
}

TEST(RouterGossip, an_unwanted_id_is_forgotten_after_3_seconds) {
    Node node({"a"});
    node.meet(2, "a");
    auto const message = said_by(4, "hello");
    node.control(2, [&](pb::Control& it) { it.add_idontwant()->add_ids(message.id); });
    node.heartbeat_after(3s);
    node.meet(3, "a");
    node.hear(3, rpc_of_message(message));
    EXPECT_EQ(node.sent_to(2).publish_size(), 1);
}

TEST(RouterGossip, nothing_is_told_of_topics_that_we_only_publish_to) {
    Node node({}, {.mesh_size = 0, .mesh_low = 0, .mesh_high = 0});
    node.meet(2, "a");
    ASSERT_TRUE(node.router.publish("a", as_bytes("hello"), node.now));
    EXPECT_EQ(node.sent_to(2).publish_size(), 1);
    node.heartbeat_after(1s);
    EXPECT_FALSE(node.router.has_rpc(peer(2)));
}

} // namespace
} // namespace exo::net::gossipsub
