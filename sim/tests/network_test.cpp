// SPDX-License-Identifier: Apache-2.0
//
// The virtual network must be as good and as bad as it says, or the scenarios prove nothing.
#include "sim/network.hpp"

#include <gtest/gtest.h>

namespace exo::sim {
namespace {

struct Fixture {
    explicit Fixture(NetworkOptions options = {})
        : network(
              queue,
              1,
              3,
              options,
              {
                  .on_connected = [this](Node, Node) { ++connected; },
                  .on_disconnected = [this](Node, Node) { ++disconnected; },
                  .on_message = [this](
                                    Node, Node, replica::Message const& message
                                ) { received.push_back(std::get<replica::Beat>(message).applied); },
                  .on_gossip = [this](Node, Node, replica::Gossip const&) { ++gossip; },
              }
          ) {
        for (Node node = 0; node < 3; ++node) {
            network.start(node);
        }
        queue.run_until(queue.now() + 2s);
    }

    void send(std::int64_t number) { network.send(0, 1, replica::Beat{.applied = number}); }

    void run() { queue.run_until(queue.now() + 2s); }

    EventQueue queue;
    int connected = 0;
    int disconnected = 0;
    int gossip = 0;
    std::vector<std::int64_t> received;
    Network network;
};

TEST(Network, connects_every_pair_once_at_both_ends) {
    Fixture const fixture;
    EXPECT_EQ(fixture.connected, 6);
}

TEST(Network, direct_messages_arrive_in_order) {
    Fixture fixture;
    std::vector<std::int64_t> expected;
    for (std::int64_t i = 0; i < 200; ++i) {
        fixture.send(i);
        expected.push_back(i);
    }
    fixture.run();
    EXPECT_EQ(fixture.received, expected);
}

TEST(Network, a_cut_link_holds_messages_until_it_heals) {
    Fixture fixture;
    fixture.network.set_link(0, 1, false);
    fixture.send(1);
    fixture.send(2);
    fixture.run();
    EXPECT_TRUE(fixture.received.empty());
    fixture.network.set_link(0, 1, true);
    fixture.send(3);
    fixture.run();
    EXPECT_EQ(fixture.received, (std::vector<std::int64_t>{1, 2, 3}));
}

TEST(Network, a_dead_connection_takes_its_messages_with_it) {
    Fixture fixture;
    fixture.network.set_link(0, 1, false);
    fixture.send(1);
    fixture.run();
    fixture.network.close(0, 1);
    fixture.network.close(1, 0);
    EXPECT_EQ(fixture.disconnected, 2);
    fixture.network.set_link(0, 1, true);
    fixture.run();
    fixture.send(2);
    fixture.run();
    EXPECT_EQ(fixture.received, (std::vector<std::int64_t>{2}));
}

TEST(Network, a_killed_process_is_noticed_at_once_by_its_peers) {
    Fixture fixture;
    fixture.network.kill(0);
    fixture.run();
    EXPECT_EQ(fixture.disconnected, 2);
    EXPECT_FALSE(fixture.network.connected(1, 0));
}

TEST(Network, gossip_reaches_each_node_once_even_when_doubled) {
    Fixture fixture({.gossip_double_percent = 100});
    fixture.network.publish(0, {std::nullopt, replica::Beat{}});
    fixture.run();
    EXPECT_EQ(fixture.gossip, 2);
}

TEST(Network, gossip_takes_another_way_around_a_cut) {
    Fixture fixture;
    fixture.network.set_link(0, 1, false);
    fixture.network.publish(0, {std::nullopt, replica::Beat{}});
    fixture.run();
    EXPECT_EQ(fixture.gossip, 2);
}

TEST(Network, gossip_is_lost_as_often_as_asked) {
    Fixture fixture({.gossip_loss_percent = 100});
    fixture.network.publish(0, {std::nullopt, replica::Beat{}});
    fixture.run();
    EXPECT_EQ(fixture.gossip, 0);
}

} // namespace
} // namespace exo::sim
