// SPDX-License-Identifier: Apache-2.0
#include "node/network/network_choice.hpp"

#include <gtest/gtest.h>

namespace exo::node {
namespace {

using Look = Result<MembershipFile::Look>;

net::ClusterToken cluster(char const* name) {
    return {net::psk_of_namespace(name), {}};
}

Look says(Membership membership) {
    return MembershipFile::Look{std::move(membership)};
}

TEST(NetworkChoice, what_was_so_at_the_start_is_no_change) {
    NetworkChoice choice(cluster("a"));
    EXPECT_FALSE(choice.on_look(says(cluster("a"))));
    NetworkChoice in_none(std::nullopt);
    EXPECT_FALSE(in_none.on_look(says(std::nullopt)));
}

TEST(NetworkChoice, joins_rotations_and_leaves_are_followed_and_told_once) {
    NetworkChoice choice(std::nullopt);
    for (auto const& next : {Membership(cluster("a")), Membership(cluster("b")), Membership()}) {
        auto const change = choice.on_look(says(next));
        ASSERT_TRUE(change);
        EXPECT_FALSE(change->is_warning);
        EXPECT_EQ(choice.membership(), next);
        EXPECT_FALSE(choice.on_look(says(next)));
    }
}

TEST(NetworkChoice, other_addresses_of_the_same_cluster_are_a_change) {
    NetworkChoice choice(cluster("a"));
    auto moved = cluster("a");
    moved.addresses = {net::Multiaddr::tcp("10.0.0.1", 20001).value()};
    ASSERT_TRUE(choice.on_look(says(moved)));
    EXPECT_EQ(choice.membership(), moved);
}

TEST(NetworkChoice, a_file_that_cannot_be_read_leaves_the_node_where_it_is) {
    NetworkChoice choice(cluster("a"));
    Look const trouble = Error(Errc::corrupt, "the file is damaged");
    auto const change = choice.on_look(trouble);
    ASSERT_TRUE(change);
    EXPECT_TRUE(change->is_warning);
    EXPECT_EQ(choice.membership(), cluster("a"));
    EXPECT_FALSE(choice.on_look(trouble)); // Said once.
    EXPECT_TRUE(choice.on_look(Look(Error(Errc::io, "the disk is gone"))));
    EXPECT_FALSE(choice.on_look(says(cluster("a"))));
    EXPECT_TRUE(choice.on_look(trouble)); // It is news again.
}

TEST(NetworkChoice, nothing_of_a_secret_is_told) {
    NetworkChoice choice(cluster("a"));
    auto const text = choice.on_look(says(cluster("b")))->text;
    EXPECT_EQ(text.find("exo1-"), std::string::npos);
    EXPECT_EQ(text.find(to_hex(cluster("b").secret).substr(0, 4)), std::string::npos);
    EXPECT_NE(text.find(net::fingerprint(cluster("b").secret)), std::string::npos);
}

TEST(PskOf, a_secret_wins_over_a_namespace) {
    EXPECT_EQ(psk_of(std::nullopt, "team"), net::psk_of_namespace("team"));
    EXPECT_EQ(psk_of(cluster("a"), "team"), cluster("a").secret);
}

} // namespace
} // namespace exo::node
