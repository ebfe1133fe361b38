// SPDX-License-Identifier: Apache-2.0
//
// A node that follows its membership file, on a real clock.
#include "node/network/network_follower.hpp"
#include "node/scope.hpp"
#include "storage/files/files.hpp"
#include "storage/files/tests/temporary_folder.hpp"

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

namespace exo::node {
namespace {

class NetworkFollowerTest : public testing::Test {
protected:
    NetworkFollowerTest() {
        options_.paths.config = folder_.path();
        options_.network_namespace = "team";
    }

    // Turns the event loop until `apply` was called once more. False if it was not in time.
    bool applied_within(Duration limit) {
        auto const before = applied_;
        auto const deadline = std::chrono::steady_clock::now() + limit;
        context_.restart();
        while (applied_ == before && std::chrono::steady_clock::now() < deadline) {
            context_.run_one_until(deadline);
        }
        return applied_ > before;
    }

    storage::tests::TemporaryFolder folder_;
    NodeOptions options_;
    MembershipFile file_{folder_.path() / "cluster.token"};
    net::ClusterToken const token_{
        net::psk_of_namespace("secret"), {net::Multiaddr::tcp("10.0.0.1", 20001).value()}
    };
    int applied_ = 0;
    asio::io_context context_{1};
};

TEST_F(NetworkFollowerTest, B089_bootstrap_peers_are_a_list_as_people_write_it) {
    options_.bootstrap_peers = {"10.0.0.9:4001", " [fe80::1%eth0]:4001 ", " "};
    EXPECT_EQ(NetworkFollower::create(options_).value().bootstrap().size(), 2u);
    for (auto const* text : {"nonsense", "10.0.0.9:0", "/ip4/10.0.0.9", "/ip4/10.0.0.9/tcp/0"}) {
        options_.bootstrap_peers = {text};
        auto const follower = NetworkFollower::create(options_);
        ASSERT_FALSE(follower) << text;
        EXPECT_NE(follower.error().text().find(text), std::string::npos) << follower.error().text();
    }
}

TEST_F(NetworkFollowerTest, joins_and_leaves_are_followed_and_the_options_peers_stay) {
    options_.bootstrap_peers = {"10.0.0.9:4001"};
    auto follower = NetworkFollower::create(options_).value();
    auto const given = follower.bootstrap();
    ASSERT_EQ(given.size(), 1u);
    EXPECT_EQ(follower.psk(), net::psk_of_namespace("team"));
    Scope scope(context_.get_executor());
    scope.spawn("following", follower.follow([this] { ++applied_; }));

    ASSERT_TRUE(file_.store(token_));
    ASSERT_TRUE(applied_within(10s));
    EXPECT_EQ(follower.psk(), token_.secret);
    EXPECT_EQ(follower.network_name(), "private cluster " + net::fingerprint(token_.secret));
    EXPECT_EQ(follower.bootstrap(), (std::vector{given[0], token_.addresses[0]}));

    // A file that cannot be read changes nothing.
    ASSERT_TRUE(storage::atomic_write(file_.path(), as_bytes("garbage")));
    EXPECT_FALSE(applied_within(NetworkFollower::look_interval * 2));
    EXPECT_EQ(follower.psk(), token_.secret);

    ASSERT_TRUE(file_.remove());
    ASSERT_TRUE(applied_within(10s));
    EXPECT_EQ(follower.psk(), net::psk_of_namespace("team"));
    EXPECT_EQ(follower.network_name(), "team");
    EXPECT_EQ(follower.bootstrap(), given);
}

TEST_F(NetworkFollowerTest, a_member_is_one_from_the_start) {
    ASSERT_TRUE(file_.store(token_));
    auto const follower = NetworkFollower::create(options_);
    ASSERT_TRUE(follower);
    EXPECT_EQ(follower->psk(), token_.secret);
    EXPECT_EQ(follower->bootstrap(), token_.addresses);
}

TEST_F(NetworkFollowerTest, a_node_does_not_start_with_a_file_that_cannot_be_read) {
    ASSERT_TRUE(storage::atomic_write(file_.path(), as_bytes("garbage")));
    EXPECT_EQ(NetworkFollower::create(options_).error().code(), Errc::corrupt);
}

TEST_F(NetworkFollowerTest, a_wrong_bootstrap_peer_is_told_with_the_flag) {
    options_.bootstrap_peers = {"nowhere"};
    auto const refused = NetworkFollower::create(options_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::invalid_argument);
    EXPECT_NE(refused.error().text().find("--bootstrap-peers"), std::string::npos);
}

} // namespace
} // namespace exo::node
