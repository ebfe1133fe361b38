// SPDX-License-Identifier: Apache-2.0
//
// Many routers on a virtual network: every subscriber gets every message exactly once, whatever
// becomes of links and nodes, and meshes keep their size.
#include "virtual_network.hpp"

#include <algorithm>

namespace exo::net::gossipsub {
namespace {

using NodeIndex = VirtualNetwork::NodeIndex;

// What was published, and who must have it: those who were up then, as they were.
struct Published {
    std::string text;
    NodeIndex author = 0;
    std::map<NodeIndex, int> incarnations;
};

Published publish_at(VirtualNetwork& network, NodeIndex author, int number, bool is_large) {
    Published published{
        .text = "message " + std::to_string(number) + std::string(is_large ? 2000 : 0, 'x'),
        .author = author,
        .incarnations = {},
    };
    for (NodeIndex i = 0; i < network.node_count(); ++i) {
        if (network.is_up(i)) {
            published.incarnations[i] = network.incarnation(i);
        }
    }
    network.publish(author, published.text);
    return published;
}

std::vector<Published> publish_some(VirtualNetwork& network, std::uint64_t seed, int count = 12) {
    Random random(seed);
    std::vector<Published> all;
    for (int i = 0; i < count; ++i) {
        auto const author = network.some_node();
        // Some of them so large that IDONTWANT comes into play.
        all.push_back(publish_at(network, author, i, random.chance(1, 2)));
        network.run_for(std::chrono::milliseconds(random.below(300)));
    }
    return all;
}

// Who still lives as it did has it exactly once; who came later at most once.
void expect_delivered(VirtualNetwork const& network, std::vector<Published> const& all) {
    for (auto const& [text, author, incarnations] : all) {
        for (NodeIndex i = 0; i < network.node_count(); ++i) {
            auto const count = network.count_of(i, text);
            auto const found = incarnations.find(i);
            bool const must = network.is_up(i) && i != author && found != incarnations.end() &&
                              found->second == network.incarnation(i);
            ASSERT_LE(count, 1) << text << " at " << int{i};
            ASSERT_TRUE(!must || count == 1) << text << " of " << int{author} << " at " << int{i};
        }
    }
}

void expect_good_meshes(VirtualNetwork const& network) {
    Limits const limits;
    EXPECT_LE(network.largest_mesh(), limits.mesh_high);
    for (NodeIndex i = 0; i < network.node_count(); ++i) {
        if (!network.is_up(i)) {
            continue;
        }
        auto const mesh = network.mesh(i);
        EXPECT_GE(mesh.size(), std::min(limits.mesh_low, network.subscribers_count(i))) << int{i};
        for (auto const& member : mesh) {
            auto const theirs = network.mesh(network.index_of(member));
            auto const is_mutual = std::ranges::any_of(theirs, [&](PeerId const& id) {
                return network.index_of(id) == i;
            });
            EXPECT_TRUE(is_mutual) << int{i} << " and " << int{network.index_of(member)};
        }
    }
}

class GossipSimulation : public testing::TestWithParam<std::uint64_t> {};

INSTANTIATE_TEST_SUITE_P(
    Seeds, GossipSimulation, testing::Range(std::uint64_t{0}, std::uint64_t{6})
);

TEST_P(GossipSimulation, every_subscriber_gets_every_message_once_at_whatever_time_it_is_sent) {
    auto const seed = GetParam();
    VirtualNetwork network({.seed = seed, .nodes = 20, .neighbours = 1 + seed % 4});
    network.run_for(1s); // Subscriptions are there; no heartbeat yet.
    auto const all = publish_some(network, seed);
    network.run_for(2s);
    expect_delivered(network, all);
}

TEST_P(GossipSimulation, a_fifth_of_the_messages_lost_is_made_up_for_by_the_mesh_and_gossip) {
    auto const seed = GetParam();
    VirtualNetwork network({.seed = seed, .nodes = 24, .neighbours = 8});
    network.run_for(10s);
    network.lose(20);
    auto const all = publish_some(network, seed);
    network.run_for(8s);
    expect_delivered(network, all);
    expect_good_meshes(network);
}

TEST_P(GossipSimulation, fifty_nodes_that_all_see_each_other_settle_in_meshes_of_5_to_12) {
    auto const seed = GetParam();
    VirtualNetwork network({.seed = seed, .nodes = 50, .neighbours = 200});
    network.run_for(5s);
    auto const all = publish_some(network, seed, 4);
    network.run_for(5s);
    expect_delivered(network, all);
    expect_good_meshes(network);
}

TEST_P(GossipSimulation, nodes_that_go_and_come_cost_no_message_of_those_that_stay) {
    auto const seed = GetParam();
    VirtualNetwork network({.seed = seed, .nodes = 24, .neighbours = 6});
    network.run_for(6s);
    Random random(seed);
    std::vector<Published> all;
    for (int round = 0; round < 12; ++round) {
        auto const leaves = network.some_node();
        network.stop(leaves);
        network.run_for(std::chrono::milliseconds(random.below(1500)));
        for (int i = 0; i < 2; ++i) {
            auto const author = network.some_node();
            if (network.is_up(author)) {
                all.push_back(publish_at(network, author, 2 * round + i, i == 0));
                network.run_for(std::chrono::milliseconds(random.below(200)));
            }
        }
        // An author that goes before its message has reached anyone takes it along.
        network.run_for(1s);
        network.start_again(leaves);
    }
    network.run_for(8s);
    expect_delivered(network, all);
    expect_good_meshes(network);
}

TEST_P(GossipSimulation, halves_that_were_apart_are_one_mesh_again) {
    auto const seed = GetParam();
    VirtualNetwork network({.seed = seed, .nodes = 24, .neighbours = 6});
    network.run_for(6s);
    network.split(12);
    network.run_for(20s);
    network.publish(0, "of one half");
    network.publish(12, "of the other");
    network.run_for(10s);
    for (NodeIndex i = 0; i < network.node_count(); ++i) {
        EXPECT_EQ(network.count_of(i, "of one half"), i > 0 && i < 12 ? 1 : 0) << int{i};
        EXPECT_EQ(network.count_of(i, "of the other"), i > 12 ? 1 : 0) << int{i};
    }
    network.heal();
    network.run_for(1s);
    auto const all = publish_some(network, seed);
    network.run_for(5s);
    expect_delivered(network, all);
    expect_good_meshes(network);
}

} // namespace
} // namespace exo::net::gossipsub
