// SPDX-License-Identifier: Apache-2.0
//
// Two nodes that know each other by DNS-SD alone: mDNS of libp2p is off, and they have a network
// namespace of this process to themselves. Needs root; skipped with the reason otherwise.
#include "net/crypto/identity.hpp"
#include "node/announce.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <sched.h>

namespace exo::node {
namespace {

constexpr Duration patience = 20s;
constexpr char const* cable =
    "ip link set lo up && ip link add v0 type veth peer name v1 && ip addr add 10.9.0.1/24 dev v0 "
    "&& ip link set v1 addrgenmode none && ip link set v1 up && ip link set v0 up";

net::HostOptions host_options(std::uint8_t seed, std::string const& name) {
    net::Seed bytes{};
    bytes.fill(seed);
    net::HostOptions options{.identity = net::Identity::from_seed(bytes)};
    options.psk = net::psk_of_namespace(name);
    options.listen = {net::Multiaddr::parse("/ip4/0.0.0.0/tcp/0").value()};
    options.agent_version = "exo/test";
    options.mdns = false;
    return options;
}

struct Machine {
    Machine(asio::io_context& context, std::uint8_t seed, std::string const& network)
        : psk(net::psk_of_namespace(network))
        , scope(context.get_executor())
        , host(context.get_executor(), host_options(seed, network), {})
        , announce(scope, host, options, "1.2.3") {}

    void start() {
        ASSERT_TRUE(host.start().has_value());
        announce.start(psk, 52415);
    }

    [[nodiscard]] bool is_connected_with(Machine const& other) const {
        return std::ranges::count(host.connected_peers(), other.host.id()) > 0;
    }

    net::Psk psk;
    NodeOptions options;
    Scope scope;
    net::Host host;
    Announce announce;
};

class AnnounceTest : public testing::Test {
protected:
    void SetUp() override {
        if (unshare(CLONE_NEWNET) != 0 || std::system(cable) != 0) {
            GTEST_SKIP() << "no network namespace with a virtual cable: this test needs root";
        }
    }

    template <class Condition>
    [[nodiscard]] bool wait_for(Condition condition) {
        auto const deadline = std::chrono::steady_clock::now() + patience;
        while (!condition() && std::chrono::steady_clock::now() < deadline) {
            context.run_one_for(100ms);
        }
        return condition();
    }

    void stop(Machine& machine) {
        machine.announce.stop();
        bool is_stopped = false;
        auto both = [](Machine& what) -> asio::awaitable<void> {
            co_await what.scope.stop();
            co_await what.host.stop();
        };
        asio::co_spawn(context, both(machine), [&](std::exception_ptr) { is_stopped = true; });
        EXPECT_TRUE(wait_for([&] { return is_stopped; }));
    }

    asio::io_context context{1};
};

TEST_F(AnnounceTest, nodes_of_one_network_connect_by_dns_sd_alone) {
    Machine one(context, 1, "a");
    Machine two(context, 2, "a");
    one.start();
    two.start();
    EXPECT_TRUE(wait_for([&] { return one.is_connected_with(two) && two.is_connected_with(one); }));
    stop(two);
    EXPECT_TRUE(wait_for([&] {
        auto const facts = one.announce.facts();
        return facts.size() == 1 && facts[0].gone.has_value();
    })) << "a node that says good-bye is marked";
    stop(one);
}

TEST_F(AnnounceTest, a_node_of_another_network_is_a_fact_and_no_peer) {
    Machine one(context, 1, "a");
    Machine two(context, 2, "b");
    one.start();
    two.start();
    EXPECT_TRUE(wait_for([&] {
        auto const facts = one.announce.facts();
        return facts.size() == 1 && facts[0].peer == two.host.id().text();
    }));
    EXPECT_FALSE(one.announce.facts().at(0).same_network);
    EXPECT_FALSE(one.is_connected_with(two));
    stop(two);
    stop(one);
}

} // namespace
} // namespace exo::node
