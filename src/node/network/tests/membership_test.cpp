// SPDX-License-Identifier: Apache-2.0
#include "net/wire/tests/words.hpp"
#include "node/network/membership.hpp"
#include "storage/files/files.hpp"
#include "storage/files/tests/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>

namespace exo::node {
namespace {

using net::address;

class MembershipTest : public testing::Test {
protected:
    // What the file says, which must be readable.
    Membership membership() {
        auto const look = file_.load();
        EXPECT_TRUE(look) << look.error().text();
        return look ? look->membership : std::nullopt;
    }

    storage::tests::TemporaryFolder folder_;
    MembershipFile file_{folder_.path() / "config" / "cluster.token"};
};

TEST_F(MembershipTest, without_a_file_the_node_is_in_no_private_cluster) {
    EXPECT_FALSE(membership());
    EXPECT_FALSE(file_.remove().value());
}

TEST_F(MembershipTest, a_cluster_is_made_with_a_secret_that_only_its_owner_can_read) {
    auto const created = create_cluster(file_).value();
    EXPECT_EQ(membership(), created);
    struct stat status{};
    ASSERT_EQ(::stat(file_.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777u, 0600u);
    ASSERT_TRUE(file_.remove().value());
    EXPECT_NE(create_cluster(file_)->secret, created.secret);
}

TEST_F(MembershipTest, a_member_does_not_make_another_cluster_by_mistake) {
    auto const first = create_cluster(file_).value();
    auto const again = create_cluster(file_);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code(), Errc::conflict);
    EXPECT_NE(again.error().text().find("exo cluster leave"), std::string::npos);
    EXPECT_EQ(membership(), first);
}

TEST_F(MembershipTest, the_token_of_one_node_brings_another_into_its_cluster) {
    auto const created = create_cluster(file_).value();
    auto const token = invitation(created, {address("/ip4/10.0.0.1/tcp/20001")});
    MembershipFile const other(folder_.path() / "other");
    auto const joined = join_cluster(other, net::to_text(token)).value();
    EXPECT_EQ(joined.now.secret, created.secret);
    EXPECT_EQ(joined.now.addresses, token.addresses);
    EXPECT_FALSE(joined.before);
    EXPECT_EQ(other.load()->membership, token);
}

TEST_F(MembershipTest, joining_another_cluster_tells_which_one_was_left) {
    auto const old = create_cluster(file_).value();
    net::ClusterToken const next{net::psk_of_namespace("next"), {}};
    EXPECT_EQ(join_cluster(file_, net::to_text(next))->before, old);
    EXPECT_EQ(membership(), next);
}

TEST_F(MembershipTest, a_wrong_token_leaves_everything_as_it_was) {
    auto const old = create_cluster(file_).value();
    auto text = net::to_text({net::psk_of_namespace("next"), {}});
    text.pop_back();
    auto const joined = join_cluster(file_, text);
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code(), Errc::invalid_argument);
    EXPECT_EQ(membership(), old);
}

TEST_F(MembershipTest, rotating_keeps_where_members_are_and_nothing_of_the_secret) {
    net::ClusterToken const old{net::psk_of_namespace("old"), {address("/ip4/10.0.0.1/tcp/20001")}};
    ASSERT_TRUE(join_cluster(file_, net::to_text(old)));
    auto const rotated = rotate_secret(file_).value();
    EXPECT_NE(rotated.secret, old.secret);
    EXPECT_EQ(rotated.addresses, old.addresses);
    EXPECT_EQ(membership(), rotated);
}

TEST_F(MembershipTest, there_is_nothing_to_rotate_outside_of_a_cluster) {
    EXPECT_EQ(rotate_secret(file_).error().code(), Errc::not_found);
    EXPECT_FALSE(std::filesystem::exists(file_.path()));
}

TEST_F(MembershipTest, a_damaged_file_is_never_taken_for_none_and_tells_what_to_do) {
    for (auto const* const content : {"", "exo1-", "garbage\n"}) {
        ASSERT_TRUE(storage::atomic_write(file_.path(), as_bytes(content)));
        auto const look = file_.load();
        ASSERT_FALSE(look) << content;
        EXPECT_EQ(look.error().code(), Errc::corrupt);
        EXPECT_NE(look.error().text().find(file_.path().string()), std::string::npos);
        EXPECT_NE(look.error().text().find("exo cluster join"), std::string::npos);
        EXPECT_FALSE(create_cluster(file_));
        EXPECT_FALSE(rotate_secret(file_));
    }
    ASSERT_TRUE(storage::atomic_write(file_.path(), Bytes(net::token_text_max + 1, 'a')));
    EXPECT_EQ(file_.load().error().code(), Errc::corrupt);
    std::filesystem::remove(file_.path());
    std::filesystem::create_directory(file_.path());
    EXPECT_EQ(file_.load().error().code(), Errc::io);
}

TEST_F(MembershipTest, joining_and_leaving_mend_a_damaged_file) {
    ASSERT_TRUE(storage::atomic_write(file_.path(), as_bytes("garbage")));
    net::ClusterToken const next{net::psk_of_namespace("next"), {}};
    EXPECT_FALSE(join_cluster(file_, net::to_text(next))->before);
    EXPECT_EQ(membership(), next);
    ASSERT_TRUE(storage::atomic_write(file_.path(), as_bytes("garbage")));
    EXPECT_TRUE(file_.remove().value());
    EXPECT_FALSE(membership());
}

TEST_F(MembershipTest, a_secret_that_was_open_to_others_is_told) {
    ASSERT_TRUE(create_cluster(file_));
    EXPECT_FALSE(file_.load()->was_open);
    ASSERT_EQ(::chmod(file_.path().c_str(), 0644), 0);
    EXPECT_TRUE(file_.load()->was_open);
    EXPECT_FALSE(file_.load()->was_open);
}

TEST(Invitation, has_the_own_addresses_first_and_each_once) {
    auto const a = address("/ip4/10.0.0.1/tcp/20001");
    auto const b = address("/ip4/10.0.0.2/tcp/20001");
    net::ClusterToken const membership{net::psk_of_namespace("x"), {a, b}};
    EXPECT_EQ(invitation(membership, {b}).addresses, (std::vector{b, a}));
    EXPECT_EQ(invitation(membership, {b}).secret, membership.secret);
}

TEST(Invitation, has_no_more_addresses_than_a_token_takes) {
    net::ClusterToken membership;
    std::vector<net::Multiaddr> own;
    for (int i = 0; i < 6; ++i) {
        own.push_back(address("/ip4/10.0.0." + std::to_string(i) + "/tcp/1"));
        membership.addresses.push_back(address("/ip4/10.0.1." + std::to_string(i) + "/tcp/1"));
    }
    own.push_back(address("/dns/" + std::string(60, 'n') + "/tcp/1")); // Too long for a token.
    auto const token = invitation(membership, own);
    ASSERT_EQ(token.addresses.size(), net::token_addresses_max);
    EXPECT_EQ(token.addresses[5], own[5]);
    EXPECT_EQ(token.addresses[6], membership.addresses[0]);
    EXPECT_TRUE(net::parse_cluster_token(net::to_text(token)));
}

} // namespace
} // namespace exo::node
