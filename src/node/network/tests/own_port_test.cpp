// SPDX-License-Identifier: Apache-2.0
#include "net/cluster_token/cluster_token.hpp"
#include "node/network/own_port.hpp"
#include "storage/files/files.hpp"
#include "storage/files/tests/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <set>

namespace exo::node {
namespace {

class OwnPortTest : public testing::Test {
protected:
    storage::tests::TemporaryFolder folder_;
    std::filesystem::path file_ = folder_.path() / "data" / "libp2p_port";
};

TEST_F(OwnPortTest, a_port_is_kept) {
    EXPECT_FALSE(kept_port(file_));
    ASSERT_TRUE(keep_port(file_, 20123));
    EXPECT_EQ(kept_port(file_), 20123);
}

TEST_F(OwnPortTest, a_file_with_something_else_counts_as_none) {
    for (auto const* const content :
         {"", "0", "65536", "-1", "12x", "x", " 1", "99999999999999999"}) {
        ASSERT_TRUE(storage::atomic_write(file_, as_bytes(content)));
        EXPECT_FALSE(kept_port(file_)) << content;
    }
}

TEST(PortsToTry, the_kept_one_comes_first_and_others_follow) {
    auto const ports = ports_to_try(4001, Random(1));
    ASSERT_EQ(ports.size(), own_port_tries);
    EXPECT_EQ(ports.front(), 4001);
    std::set<std::uint16_t> const others(ports.begin() + 1, ports.end());
    EXPECT_GT(others.size(), own_port_tries - 3); // By chance, not one after the other.
    EXPECT_GE(*others.begin(), own_port_first);
    EXPECT_LE(*others.rbegin(), own_port_last);
    EXPECT_EQ(ports_to_try(std::nullopt, Random(1)).size(), own_port_tries);
}

TEST(PortsToTry, two_nodes_begin_with_different_ones) {
    EXPECT_NE(ports_to_try(std::nullopt, Random(1)), ports_to_try(std::nullopt, Random(2)));
}

TEST_F(OwnPortTest, one_is_reserved_for_a_node_that_has_never_run) {
    auto const port = reserve_port(file_).value();
    EXPECT_EQ(kept_port(file_), port);
    EXPECT_EQ(reserve_port(file_).value(), port);
}

std::vector<std::string> told(std::vector<std::string> const& ips) {
    std::vector<model::NetworkInterface> interfaces;
    for (auto const& ip : ips) {
        interfaces.push_back({.name = "eth0", .ip_address = ip});
    }
    std::vector<std::string> texts;
    for (auto const& address : addresses_to_tell(interfaces, 20001)) {
        texts.push_back(address.text());
    }
    return texts;
}

TEST(AddressesToTell, are_those_of_the_interfaces_with_the_port) {
    EXPECT_EQ(
        told({"192.168.1.5", "fd00::5"}),
        (std::vector<std::string>{"/ip4/192.168.1.5/tcp/20001", "/ip6/fd00::5/tcp/20001"})
    );
}

TEST(AddressesToTell, loopback_is_for_a_machine_without_a_network) {
    EXPECT_EQ(told({}), (std::vector<std::string>{"/ip4/127.0.0.1/tcp/20001"}));
}

TEST(AddressesToTell, no_more_than_a_token_takes) {
    EXPECT_EQ(told(std::vector<std::string>(20, "10.0.0.1")).size(), net::token_addresses_max);
}

} // namespace
} // namespace exo::node
