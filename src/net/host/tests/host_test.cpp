// SPDX-License-Identifier: Apache-2.0
//
// Hosts with each other: connecting, gossip, loss, stopping.
#include "host_fixture.hpp"
#include "net/host/transport.hpp"

#include <algorithm>

namespace exo::net::test {
namespace {

TEST_F(HostTest, two_hosts_of_one_namespace_find_out_who_the_other_is) {
    auto& a = start(1);
    auto& b = start(2);
    connect(a, b);
    EXPECT_EQ(a.connected, std::vector{b.host.id()});
    EXPECT_EQ(b.connected, std::vector{a.host.id()});
    ASSERT_EQ(a.host.connections().size(), 1u);
    EXPECT_TRUE(a.host.connections()[0].outbound);
    EXPECT_EQ(a.host.connections()[0].remote, b.address());
    EXPECT_FALSE(b.host.connections()[0].outbound);
}

TEST_F(HostTest, bootstrap_addresses_are_dialled_with_and_without_a_peer_id) {
    auto& a = start(1);
    auto options = options_of(2);
    options.bootstrap = {a.address().with_peer(a.host.id()).text()};
    auto& b = start(options);
    auto of_c = options_of(3);
    of_c.bootstrap = {"127.0.0.1:" + std::to_string(a.address().tcp_target()->port)};
    auto& c = start(of_c);
    EXPECT_TRUE(run_until([&] { return b.sees(a) && c.sees(a); }));
}

TEST_F(HostTest, a_wrong_bootstrap_address_is_refused_at_start) {
    auto options = options_of(1);
    options.bootstrap = {"nonsense"};
    auto& node = add(options);
    EXPECT_EQ(node.host.start().error().code(), Errc::invalid_argument);
}

TEST_F(HostTest, a_port_in_use_is_told_by_address_and_port) {
    auto& a = start(1);
    auto options = options_of(2);
    options.listen = {a.address()};
    auto& b = add(options);
    auto const result = b.host.start();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::io);
    EXPECT_NE(result.error().text().find(a.address().text()), std::string::npos);
}

TEST_F(HostTest, ipv6_is_spoken_where_there_is_one) {
    auto options = options_of(1);
    options.listen = {Multiaddr::parse("/ip6/::1/tcp/0").value()};
    auto& a = add(options);
    if (!a.host.start()) {
        GTEST_SKIP() << "this machine has no IPv6 loopback";
    }
    auto& b = start(2);
    connect(b, a);
    EXPECT_EQ(b.host.connections()[0].remote, a.address());
}

TEST_F(HostTest, gossip_goes_both_ways_once) {
    auto& a = start(1);
    auto& b = start(2);
    connect(a, b);
    // A message before the other's subscription has come is lost, so send until one arrives.
    auto const arrives = [&](Node& from, Node& to, std::string const& text) {
        return run_until([&] {
            if (to.gossip.empty()) {
                EXPECT_TRUE(from.host.publish("events", as_bytes(text)));
                run_for(100ms);
            }
            return !to.gossip.empty();
        });
    };
    ASSERT_TRUE(arrives(a, b, "to b"));
    ASSERT_TRUE(arrives(b, a, "to a"));
    EXPECT_EQ(b.gossip[0], (Gossip{"events", a.host.id(), "to b"}));
    EXPECT_EQ(a.gossip[0], (Gossip{"events", b.host.id(), "to a"}));
    auto const before = b.gossip.size();
    ASSERT_TRUE(a.host.publish("events", as_bytes("once")));
    ASSERT_TRUE(run_until([&] { return b.gossip.size() > before; }));
    run_for(300ms);
    EXPECT_EQ(b.gossip.size(), before + 1);
    EXPECT_EQ(a.host.counters().messages_rejected, 0u);
}

TEST_F(HostTest, gossip_crosses_a_middle_host) {
    auto& a = start(1);
    auto& middle = start(2);
    auto& c = start(3);
    connect(a, middle);
    connect(c, middle);
    ASSERT_TRUE(run_until([&] {
        if (c.gossip.empty()) {
            EXPECT_TRUE(a.host.publish("events", as_bytes("hello")));
            run_for(100ms);
        }
        return !c.gossip.empty();
    }));
    EXPECT_EQ(c.gossip[0].author, a.host.id());
    EXPECT_FALSE(a.sees(c));
}

TEST_F(HostTest, a_large_message_arrives_and_a_too_large_one_is_refused) {
    auto& a = start(1);
    auto& b = start(2);
    connect(a, b);
    ASSERT_TRUE(run_until([&] {
        if (b.gossip.empty()) {
            EXPECT_TRUE(a.host.publish("events", as_bytes("warm")));
            run_for(100ms);
        }
        return !b.gossip.empty();
    }));
    b.gossip.clear();
    Bytes const large(8 * 1024 * 1024 - 1000, 'x');
    ASSERT_TRUE(a.host.publish("events", large));
    ASSERT_TRUE(run_until([&] {
        return std::ranges::any_of(b.gossip, [&](auto const& one) {
            return one.data.size() == large.size();
        });
    }));
    EXPECT_EQ(a.host.publish("events", Bytes(8 * 1024 * 1024, 'x')).error().code(), Errc::limit);
}

TEST_F(HostTest, an_address_where_someone_else_lives_is_not_accepted) {
    auto& a = start(1);
    auto& b = start(2);
    b.host.dial(a.address().with_peer(options_of(3).identity.peer_id()));
    EXPECT_TRUE(run_until([&] { return b.host.counters().handshakes_failed > 0; }));
    EXPECT_TRUE(b.connected.empty());
}

TEST_F(HostTest, nobody_connects_to_itself) {
    auto& a = start(1);
    a.host.dial(a.address());
    a.host.dial(a.address().with_peer(a.host.id()));
    run_for(500ms);
    EXPECT_TRUE(a.connected.empty());
    EXPECT_TRUE(a.host.connections().empty());
}

TEST_F(HostTest, identify_tells_which_protocols_the_peer_speaks) {
    auto& a = start(1);
    auto& b = add(options_of(2));
    b.host.handle("/exo/echo/1.0.0", [](std::unique_ptr<Stream>) -> asio::awaitable<void> {
        co_return;
    });
    ASSERT_TRUE(b.host.start());
    EXPECT_FALSE(a.host.speaks(b.host.id(), "/exo/echo/1.0.0"));
    connect(a, b);
    ASSERT_TRUE(run_until([&] { return a.host.speaks(b.host.id(), "/exo/echo/1.0.0").has_value(); })
    );
    EXPECT_EQ(a.host.speaks(b.host.id(), "/exo/echo/1.0.0"), true);
    EXPECT_EQ(a.host.speaks(b.host.id(), "/exo/other/1.0.0"), false);
}

TEST_F(HostTest, a_peer_that_stops_is_gone_and_is_found_again) {
    auto options = options_of(1);
    options.redial_interval = 200ms;
    auto& a = start(options);
    auto& b = start(2);
    auto const address = b.address();
    connect(a, b);
    ASSERT_TRUE(stop(b));
    ASSERT_TRUE(run_until([&] { return a.disconnected.size() == 1; }));
    EXPECT_TRUE(a.host.connected_peers().empty());
    auto again = options_of(2);
    again.listen = {address};
    auto& reborn = start(again);
    EXPECT_TRUE(run_until([&] { return a.sees(reborn); }));
}

TEST_F(HostTest, disconnect_ends_the_connection_for_both_and_the_next_dial_makes_a_new_one) {
    auto options = options_of(1);
    options.redial_interval = 200ms;
    auto& a = start(options);
    auto& b = start(2);
    connect(a, b);
    a.host.disconnect(b.host.id());
    ASSERT_TRUE(run_until([&] { return !a.disconnected.empty() && !b.disconnected.empty(); }));
    EXPECT_TRUE(run_until([&] { return a.connected.size() == 2 && b.connected.size() == 2; }));
}

Psk key(std::uint8_t byte) {
    Psk psk{};
    psk.fill(byte);
    return psk;
}

TEST_F(HostTest, a_host_that_goes_to_another_network_leaves_its_peers_and_finds_those_there) {
    auto options = options_of(1);
    options.redial_interval = 200ms;
    auto& mover = start(options);
    auto& left = start(2);
    auto there = options_of(3);
    there.psk = key(7);
    auto& found = start(there);
    connect(mover, left);
    mover.host.set_bootstrap({found.address()});
    run_for(500ms);
    EXPECT_FALSE(mover.sees(found));

    mover.host.set_psk(key(7));
    ASSERT_TRUE(run_until([&] { return mover.sees(found) && found.sees(mover); }));
    ASSERT_TRUE(run_until([&] { return !left.sees(mover) && !mover.sees(left); }));
    run_for(500ms); // It tries its old peer on, in vain.
    EXPECT_FALSE(mover.sees(left));
    EXPECT_FALSE(left.sees(mover));
}

TEST_F(HostTest, peers_that_go_to_another_network_together_meet_there_again) {
    auto options = options_of(1);
    options.redial_interval = 200ms;
    auto& a = start(options);
    auto& b = start(2);
    connect(a, b);
    a.host.set_psk(key(7));
    b.host.set_psk(key(7));
    ASSERT_TRUE(run_until([&] { return a.disconnected.size() == 1 && b.disconnected.size() == 1; })
    );
    EXPECT_TRUE(run_until([&] { return a.sees(b) && b.sees(a); }));
    // Out of every private network, too.
    a.host.set_psk(std::nullopt);
    b.host.set_psk(std::nullopt);
    EXPECT_TRUE(run_until([&] { return a.connected.size() == 3 && b.connected.size() == 3; }));
}

TEST_F(HostTest, a_switch_does_not_wait_for_a_handshake_that_hangs) {
    asio::ip::tcp::acceptor silent(io_, {asio::ip::address_v4::loopback(), 0});
    auto const address = address_of(silent.local_endpoint());
    auto& a = start(1);
    a.host.set_bootstrap({address});
    std::vector<asio::ip::tcp::socket> heard;
    std::function<void()> accept = [&] {
        silent.async_accept([&](boost::system::error_code error, asio::ip::tcp::socket socket) {
            if (!error) {
                heard.push_back(std::move(socket));
                accept();
            }
        });
    };
    accept();
    ASSERT_TRUE(run_until([&] { return heard.size() == 1; }));
    a.host.set_psk(key(7));
    EXPECT_TRUE(run_until([&] { return heard.size() == 2; }, 3s)); // The handshake may take 10 s.
    silent.close();
}

TEST_F(HostTest, the_same_key_again_changes_nothing) {
    auto& a = start(1);
    auto& b = start(2);
    connect(a, b);
    a.host.set_psk(psk_of_namespace("test"));
    run_for(500ms);
    EXPECT_TRUE(a.sees(b));
    EXPECT_TRUE(a.disconnected.empty());
}

// Wherever in the handshake the switch comes: each turn is one step later.
TEST_F(HostTest, a_handshake_that_was_begun_in_another_network_makes_no_connection) {
    int interrupted = 0;
    for (std::uint8_t steps = 0; steps < 40; ++steps) {
        auto& a = start(static_cast<std::uint8_t>(100 + steps));
        auto& b = start(static_cast<std::uint8_t>(150 + steps));
        a.host.dial(b.address());
        io_.restart();
        for (int step = 0; step < steps; ++step) {
            io_.run_one_for(10ms);
        }
        auto const before = std::pair(a.connected.size(), b.connected.size());
        interrupted += before == std::pair(std::size_t{0}, std::size_t{0}) ? 1 : 0;
        a.host.set_psk(key(7));
        b.host.set_psk(key(8));
        b.host.set_psk(psk_of_namespace("test")); // The key of the handshake, another time.
        run_for(20ms);
        EXPECT_EQ(std::pair(a.connected.size(), b.connected.size()), before) << int{steps};
        ASSERT_TRUE(stop(a) && stop(b));
    }
    EXPECT_GT(interrupted, 5);
}

TEST_F(HostTest, a_port_that_is_taken_is_replaced_by_the_next_one_where_that_is_allowed) {
    auto& first = start(1);
    auto options = options_of(2);
    options.listen = {first.address()};
    auto& refused = add(options);
    EXPECT_EQ(refused.host.start().error().code(), Errc::io);
    auto const free_port = Multiaddr::parse("/ip4/127.0.0.1/tcp/0").value();
    options.listen_else = {{first.address()}, {free_port}};
    auto& second = start(options);
    ASSERT_EQ(second.host.listen_addresses().size(), 1u);
    connect(first, second);
}

TEST_F(HostTest, stopping_is_quick_and_can_be_done_twice) {
    auto& a = start(1);
    auto& b = start(2);
    connect(a, b);
    a.host.dial(Multiaddr::parse("/ip4/127.0.0.1/tcp/1").value());
    EXPECT_TRUE(stop(a));
    EXPECT_TRUE(stop(a));
    EXPECT_TRUE(run_until([&] { return b.host.connected_peers().empty(); }));
    EXPECT_TRUE(stop(b));
    io_.restart();
    io_.run_for(1s);
    EXPECT_TRUE(io_.stopped()); // No timer or socket of either is left.
}

TEST_F(HostTest, a_host_may_be_dropped_without_stopping) {
    auto& a = start(1);
    auto& b = start(2);
    connect(a, b);
    nodes_.erase(nodes_.begin());
    EXPECT_TRUE(run_until([&] { return b.disconnected.size() == 1; }));
}

} // namespace
} // namespace exo::net::test
