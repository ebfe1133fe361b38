// SPDX-License-Identifier: Apache-2.0
//
// Which instances are there, whom to dial, and what is remembered of those that went.
#include "net/dnssd/directory.hpp"
#include "net/wire/tests/words.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace exo::net::dnssd {
namespace {

constexpr TimePoint start{};
Link const ip4{.interface = "eth0", .is_ip4 = true};
Link const ip6{.interface = "eth0", .is_ip4 = false};

std::vector<std::string> texts_of(
    int number,
    std::vector<std::string> const& addresses = {"/ip4/10.0.0.2/tcp/4001"},
    std::string network = "ours"
) {
    Announcement announcement{
        .device_id = peer(number).text(), .version = "1.0", .network = std::move(network)
    };
    for (auto const& one : addresses) {
        announcement.addresses.push_back(address(one).with_peer(peer(number)));
    }
    return encode_txt(announcement);
}

std::vector<Found> events_of(Directory& directory) {
    std::vector<Found> events;
    while (auto event = directory.next_event()) {
        events.push_back(std::move(*event));
    }
    return events;
}

class DirectoryTest : public testing::Test {
protected:
    void meet(std::string const& name, std::vector<std::string> const& texts, Link link = ip4) {
        EXPECT_TRUE(directory.appeared(name, link, start));
        directory.described(name, link.interface, texts, start);
    }

    Directory directory{peer(1), "ours"};
};

TEST_F(DirectoryTest, a_node_of_our_network_is_to_be_dialled) {
    meet("two", texts_of(2));
    std::vector<Found> const expected = {{peer(2), {address("/ip4/10.0.0.2/tcp/4001")}}};
    EXPECT_EQ(events_of(directory), expected);
    EXPECT_EQ(directory.of_our_network(), expected);
    auto const facts = directory.facts(start);
    ASSERT_EQ(facts.size(), 1U);
    EXPECT_EQ(facts[0].name, "two");
    EXPECT_EQ(facts[0].peer, peer(2).text());
    EXPECT_EQ(facts[0].version, "1.0");
    EXPECT_EQ(facts[0].interface, "eth0");
    EXPECT_TRUE(facts[0].same_network);
    EXPECT_EQ(
        facts[0].addresses, std::vector{address("/ip4/10.0.0.2/tcp/4001").with_peer(peer(2)).text()}
    );
}

TEST_F(DirectoryTest, the_same_heard_again_is_no_news) {
    meet("two", texts_of(2));
    (void)events_of(directory);
    meet("two", texts_of(2), ip6);
    meet("two", texts_of(2));
    EXPECT_TRUE(events_of(directory).empty());
    EXPECT_EQ(directory.facts(start).size(), 1U);
}

TEST_F(DirectoryTest, a_node_that_moves_is_to_be_dialled_again) {
    meet("two", texts_of(2));
    (void)events_of(directory);
    meet("two", texts_of(2, {"/ip4/10.0.0.9/tcp/4001"}));
    std::vector<Found> const expected = {{peer(2), {address("/ip4/10.0.0.9/tcp/4001")}}};
    EXPECT_EQ(events_of(directory), expected);
}

TEST_F(DirectoryTest, link_local_addresses_get_the_interface_where_they_were_heard) {
    meet("two", texts_of(2, {"/ip6/fe80::2/tcp/4001"}), {.interface = "wlan0"});
    std::vector<Found> const expected = {{peer(2), {address("/ip6zone/wlan0/ip6/fe80::2/tcp/4001")}}
    };
    EXPECT_EQ(events_of(directory), expected);
}

TEST_F(DirectoryTest, what_a_stranger_says_leads_neither_to_this_machine_nor_to_a_name_server) {
    meet(
        "two",
        texts_of(
            2,
            {"/ip4/127.0.0.1/tcp/22",
             "/ip6/::1/tcp/22",
             "/ip6/::ffff:127.0.0.1/tcp/22",
             "/ip4/0.0.0.0/tcp/22",
             "/dns4/example.com/tcp/22",
             "/ip4/10.0.0.2/tcp/0",
             "/ip6zone/lo/ip6/fd00::2/tcp/4001"}
        )
    );
    std::vector<Found> const expected = {{peer(2), {address("/ip6/fd00::2/tcp/4001")}}};
    EXPECT_EQ(events_of(directory), expected);
}

TEST_F(DirectoryTest, a_node_of_another_network_is_a_fact_only) {
    meet("two", texts_of(2, {"/ip4/10.0.0.2/tcp/4001"}, "theirs"));
    EXPECT_TRUE(events_of(directory).empty());
    EXPECT_TRUE(directory.of_our_network().empty());
    ASSERT_EQ(directory.facts(start).size(), 1U);
    EXPECT_FALSE(directory.facts(start)[0].same_network);
}

TEST_F(DirectoryTest, the_network_of_this_node_may_change) {
    meet("two", texts_of(2, {"/ip4/10.0.0.2/tcp/4001"}, "theirs"));
    directory.set_network("theirs", start);
    EXPECT_EQ(events_of(directory).size(), 1U);
    EXPECT_TRUE(directory.facts(start)[0].same_network);
}

TEST_F(DirectoryTest, this_node_is_no_news_to_itself) {
    meet("one", texts_of(1));
    EXPECT_TRUE(events_of(directory).empty());
    EXPECT_TRUE(directory.facts(start).empty());
}

TEST_F(DirectoryTest, a_node_is_there_while_one_family_says_so) {
    meet("two", texts_of(2), ip4);
    meet("two", texts_of(2), ip6);
    EXPECT_FALSE(directory.vanished("two", ip4, start + 1s));
    EXPECT_FALSE(directory.facts(start)[0].gone.has_value());
    EXPECT_TRUE(directory.vanished("two", ip6, start + 2s));
    EXPECT_EQ(directory.facts(start + 2s)[0].gone, start + 2s);
    EXPECT_TRUE(directory.of_our_network().empty());
}

TEST_F(DirectoryTest, a_name_on_two_interfaces_is_two_instances) {
    meet("pi", texts_of(2));
    meet("pi", texts_of(3), {.interface = "wlan0"});
    EXPECT_EQ(directory.of_our_network().size(), 2U);
    EXPECT_FALSE(directory.vanished("pi", ip4, start)) << "it is still heard on wlan0";
    EXPECT_EQ(directory.of_our_network().size(), 1U);
}

TEST_F(DirectoryTest, a_node_that_returns_is_dialled_by_what_it_said_before) {
    meet("two", texts_of(2));
    (void)events_of(directory);
    EXPECT_TRUE(directory.vanished("two", ip4, start + 1s));
    EXPECT_TRUE(directory.appeared("two", ip4, start + 2s));
    EXPECT_EQ(events_of(directory).size(), 1U);
    auto const facts = directory.facts(start + 2s);
    EXPECT_FALSE(facts[0].gone.has_value());
    EXPECT_EQ(facts[0].since, start + 2s);
}

TEST_F(DirectoryTest, what_has_gone_is_forgotten_after_an_hour) {
    meet("two", texts_of(2));
    EXPECT_TRUE(directory.vanished("two", ip4, start));
    EXPECT_EQ(directory.facts(start + 59min).size(), 1U);
    EXPECT_TRUE(directory.facts(start + 61min).empty());
    directory.clear(start + 61min);
    EXPECT_EQ(directory.size(), 0U);
}

TEST_F(DirectoryTest, only_so_many_that_have_gone_are_remembered_and_the_oldest_go_first) {
    Directory small(peer(1), "ours", {.gone_max = 2});
    for (int i = 0; i < 4; ++i) {
        auto const name = "n" + std::to_string(9 - i);
        EXPECT_TRUE(small.appeared(name, ip4, start));
        EXPECT_TRUE(small.vanished(name, ip4, start + i * 1s));
    }
    auto const facts = small.facts(start + 4s);
    ASSERT_EQ(facts.size(), 2U);
    EXPECT_EQ(facts[0].name, "n6");
    EXPECT_EQ(facts[1].name, "n7");
}

TEST_F(DirectoryTest, more_instances_than_the_limit_are_not_looked_at) {
    Directory small(peer(1), "ours", {.instances_max = 2});
    EXPECT_TRUE(small.appeared("a", ip4, start));
    EXPECT_TRUE(small.appeared("b", ip4, start));
    EXPECT_FALSE(small.appeared("c", ip4, start));
    small.described("c", "eth0", texts_of(2), start);
    EXPECT_TRUE(small.of_our_network().empty());
    EXPECT_EQ(small.size(), 2U);
    EXPECT_TRUE(small.appeared("a", ip6, start)) << "one that is there already is no more of them";
    EXPECT_TRUE(small.vanished("b", ip4, start));
    EXPECT_TRUE(small.appeared("c", ip4, start)) << "there is room again";
}

TEST_F(DirectoryTest, names_that_people_cannot_read_are_not_looked_at) {
    for (std::string const name : {"", "a\nb", "\x1b[2J", "\xff", "a\x7f"}) {
        EXPECT_FALSE(directory.appeared(name, ip4, start));
    }
    EXPECT_TRUE(directory.appeared("Küche & Büro.1", ip4, start));
    EXPECT_EQ(directory.size(), 1U);
}

TEST_F(DirectoryTest, texts_that_are_not_a_nodes_leave_just_the_name) {
    meet("printer", {"ty=Laser"});
    EXPECT_TRUE(events_of(directory).empty());
    ASSERT_EQ(directory.facts(start).size(), 1U);
    EXPECT_EQ(directory.facts(start)[0].peer, "");
    meet("two", {"device_id=not-a-peer-id", "network=ours"});
    EXPECT_TRUE(events_of(directory).empty()) << "nobody to dial";
}

TEST_F(DirectoryTest, all_are_gone_when_the_driver_starts_anew) {
    meet("two", texts_of(2));
    meet("three", texts_of(3));
    directory.clear(start + 1s);
    EXPECT_TRUE(directory.of_our_network().empty());
    for (auto const& one : directory.facts(start + 1s)) {
        EXPECT_EQ(one.gone, start + 1s);
    }
}

} // namespace
} // namespace exo::net::dnssd
