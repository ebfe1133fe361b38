// SPDX-License-Identifier: Apache-2.0
//
// Hosts that find each other: bootstrap peers, addresses that are passed on, what is told of it.
#include "host_fixture.hpp"
#include "net/interfaces/scan.hpp"
#include "stranger.hpp"

#include <fmt/format.h>

#include <set>

namespace exo::net::test {
namespace {

// Loopback addresses are never passed on, so hosts that shall meet by hearsay need others.
std::optional<std::string> lan_ip() {
    auto const local = local_ip_towards("192.0.2.1");
    auto const ip = local ? Ip::parse(*local) : std::nullopt;
    return ip && may_lead_elsewhere(*ip) ? local : std::nullopt;
}

HostOptions lan_options(std::uint8_t seed, std::string const& ip) {
    auto options = options_of(seed);
    options.listen = {Multiaddr::tcp(ip, 0).value()};
    options.redial_interval = 300ms;
    return options;
}

TEST_F(HostTest, three_hosts_with_one_bootstrap_address_become_a_full_mesh) {
    auto const ip = lan_ip();
    if (!ip) {
        GTEST_SKIP() << "this machine has no network";
    }
    auto& a = start(lan_options(1, *ip));
    auto of_b = lan_options(2, *ip);
    of_b.bootstrap = {a.address().text()};
    auto& b = start(of_b);
    auto of_c = lan_options(3, *ip);
    of_c.bootstrap = of_b.bootstrap;
    auto& c = start(of_c);
    ASSERT_TRUE(run_until([&] {
        return a.sees(b) && a.sees(c) && b.sees(c) && b.sees(a) && c.sees(a) && c.sees(b);
    }));
    // The one who made the introduction may go.
    ASSERT_TRUE(stop(a));
    run_for(300ms);
    EXPECT_TRUE(b.sees(c) && c.sees(b));
}

TEST_F(HostTest, B084_a_peer_that_only_comes_out_is_a_member_like_any_other) {
    auto& a = start(1);
    auto& b = start(2);
    auto of_inner = options_of(3);
    of_inner.listen = {}; // As behind NAT: nothing can come in.
    of_inner.bootstrap = {a.address().text(), b.address().text()};
    auto& inner = start(of_inner);
    EXPECT_TRUE(run_until([&] { return a.sees(inner) && b.sees(inner); }));
    EXPECT_TRUE(a.host.publish("events", as_bytes("hello")));
}

TEST_F(HostTest, B089_a_bootstrap_peer_that_returns_with_a_new_id_is_met_again) {
    auto& a = start(1);
    auto const address = a.address();
    auto options = options_of(2);
    options.redial_interval = 200ms;
    // With the id, which will not be true any more.
    options.bootstrap = {address.with_peer(a.host.id()).text()};
    auto& b = start(options);
    ASSERT_TRUE(run_until([&] { return b.sees(a); }));
    ASSERT_TRUE(stop(a));
    ASSERT_TRUE(run_until([&] { return b.disconnected.size() == 1; }));
    auto again = options_of(9);
    again.listen = {address};
    auto& reborn = start(again);
    EXPECT_TRUE(run_until([&] { return b.sees(reborn); }));
}

TEST_F(HostTest, B089_bootstrap_peers_may_be_names) {
    auto& a = start(1);
    auto const port = a.address().tcp_target()->port;
    for (auto const* form : {"localhost:{}", "/dns/localhost/tcp/{}", "/dns4/localhost/tcp/{}"}) {
        auto options = options_of(static_cast<std::uint8_t>(10 + nodes_.size()));
        options.bootstrap = {fmt::format(fmt::runtime(form), port)};
        auto& b = start(options);
        EXPECT_TRUE(run_until([&] { return b.sees(a); })) << form;
    }
}

TEST_F(HostTest, B086_a_start_waits_for_nobody) {
    auto options = options_of(1);
    options.bootstrap = {"192.0.2.1:4001", "[2001:db8::1]:4001", "no-such-name.invalid:4001"};
    auto const begun = now();
    auto& a = start(options);
    auto& b = start(2);
    EXPECT_LT(now() - begun, 2s);
    connect(a, b);
    EXPECT_TRUE(stop(a));
}

TEST_F(HostTest, connections_are_told_with_id_and_remote_address) {
    std::vector<ConnectionFacts> opened;
    std::vector<ConnectionFacts> closed;
    auto& a = start(1);
    HostCallbacks callbacks;
    callbacks.on_connection_opened = [&](ConnectionFacts const& one) { opened.push_back(one); };
    callbacks.on_connection_closed = [&](ConnectionFacts const& one) { closed.push_back(one); };
    Host host(io_.get_executor(), options_of(2), callbacks);
    ASSERT_TRUE(host.start());
    host.dial(a.address());
    ASSERT_TRUE(run_until([&] { return opened.size() == 1; }));
    EXPECT_EQ(opened[0].id, 1U);
    EXPECT_EQ(opened[0].peer, a.host.id());
    EXPECT_EQ(opened[0].remote_ip, "127.0.0.1");
    EXPECT_EQ(opened[0].remote_tcp_port, a.address().tcp_target()->port);
    EXPECT_TRUE(opened[0].outbound);
    ASSERT_TRUE(stop(a));
    ASSERT_TRUE(run_until([&] { return closed.size() == 1; }));
    EXPECT_EQ(closed[0].id, 1U);
    auto& again = start(3);
    host.dial(again.address());
    ASSERT_TRUE(run_until([&] { return opened.size() == 2; }));
    EXPECT_EQ(opened[1].id, 2U);
}

TEST_F(HostTest, facts_say_what_was_dialled_and_who_is_connected) {
    auto& a = start(1);
    auto options = options_of(2);
    options.bootstrap = {a.address().text(), "127.0.0.1:1"};
    auto& b = start(options);
    ASSERT_TRUE(run_until([&] {
        auto const dials = b.host.facts().dials;
        return b.sees(a) && std::ranges::any_of(dials, &DialFacts::failures);
    }));
    auto const facts = b.host.facts();
    EXPECT_EQ(facts.self, b.host.id());
    EXPECT_EQ(facts.listen, b.host.listen_addresses());
    ASSERT_EQ(facts.connections.size(), 1U);
    EXPECT_EQ(facts.connections[0].peer, a.host.id());
    ASSERT_EQ(facts.dials.size(), 2U);
    for (auto const& dial : facts.dials) {
        EXPECT_TRUE(dial.given);
        bool const is_good = dial.address == a.address();
        EXPECT_EQ(dial.connected, is_good);
        EXPECT_EQ(dial.reached, is_good);
        EXPECT_EQ(dial.error.empty(), is_good) << dial.error;
    }
}

TEST_F(HostTest, a_stranger_who_was_shown_out_is_a_fact) {
    auto& a = start(1);
    Stranger(io_, a.address()); // It comes and goes.
    ASSERT_TRUE(run_until([&] { return !a.host.facts().refusals.empty(); }));
    EXPECT_EQ(a.host.facts().refusals[0].ip, "127.0.0.1");
    EXPECT_FALSE(a.host.facts().refusals[0].reason.empty());
}

TEST_F(HostTest, B078_another_node_with_our_own_identity_is_told) {
    auto& original = start(1);
    auto options = options_of(1); // The same key, as after copying a home folder.
    options.bootstrap = {original.address().text()};
    auto& copy = start(options);
    ASSERT_TRUE(run_until([&] {
        auto const dials = copy.host.facts().dials;
        return !dials.empty() && dials[0].failures > 0;
    }));
    auto const error = copy.host.facts().dials[0].error;
    EXPECT_NE(error.find("identity"), std::string::npos) << error;
    EXPECT_NE(error.find("node_id.keypair"), std::string::npos) << error;
}

TEST_F(HostTest, B078_to_meet_only_ourselves_is_no_reason_for_alarm) {
    auto& a = start(1);
    auto const port = a.address().tcp_target()->port;
    ASSERT_TRUE(stop(a));
    auto options = options_of(2);
    options.listen = {Multiaddr::tcp("127.0.0.1", port).value()};
    options.bootstrap = {"127.0.0.1:" + std::to_string(port)}; // The same list on all nodes.
    auto& b = start(options);
    ASSERT_TRUE(run_until([&] { return b.host.facts().dials.at(0).error == "this node itself"; }));
    EXPECT_EQ(b.host.facts().dials[0].failures, 0U);
}

TEST_F(HostTest, B076_hearsay_of_loopback_is_not_believed) {
    auto& a = start(1); // These three listen on loopback only.
    auto& b = start(2);
    auto& c = start(3);
    connect(b, a);
    connect(c, a);
    ASSERT_TRUE(run_until([&] {
        return a.host.speaks(b.host.id(), "/exo/peers/1.0.0") == true &&
               a.host.speaks(c.host.id(), "/exo/peers/1.0.0") == true;
    }));
    run_for(500ms);
    EXPECT_FALSE(b.sees(c));
    EXPECT_EQ(b.host.facts().dials.size(), 1U); // a's own address; nothing of c.
}

// Both dial, so two connections stand; while one of them is closed as surplus no message is lost.
TEST_F(HostTest, no_message_is_lost_when_a_surplus_connection_is_closed) {
    auto& a = start(1);
    auto& b = start(2);
    a.host.dial(b.address());
    b.host.dial(a.address());
    ASSERT_TRUE(run_until([&] { return a.sees(b) && b.sees(a); }));
    ASSERT_TRUE(run_until([&] { // Subscribed, both ways.
        EXPECT_TRUE(a.host.publish("events", as_bytes("warm")));
        EXPECT_TRUE(b.host.publish("events", as_bytes("warm")));
        run_for(100ms);
        return !a.gossip.empty() && !b.gossip.empty();
    }));
    std::set<std::string> sent;
    auto const end = now() + 5s;
    while (now() < end) {
        auto const text = std::to_string(sent.size());
        ASSERT_TRUE(a.host.publish("events", as_bytes(text)));
        ASSERT_TRUE(b.host.publish("events", as_bytes(text)));
        sent.insert(text);
        run_for(2ms);
    }
    EXPECT_EQ(a.host.connections().size(), 1U);
    auto const has_all = [&](Node const& node) {
        std::set<std::string> came;
        for (auto const& one : node.gossip) {
            came.insert(one.data);
        }
        return std::ranges::includes(came, sent);
    };
    EXPECT_TRUE(run_until([&] { return has_all(a) && has_all(b); }, 3s));
}

} // namespace
} // namespace exo::net::test
