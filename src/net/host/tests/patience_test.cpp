// SPDX-License-Identifier: Apache-2.0
//
// What the Host does only after a while: these tests wait for its real time-outs.
#include "host_fixture.hpp"
#include "stranger.hpp"

namespace exo::net::test {
namespace {

TEST_F(HostTest, a_host_of_another_namespace_is_refused_and_counted) {
    auto& a = start(1);
    auto options = options_of(2);
    options.psk = psk_of_namespace("other");
    auto& b = start(options);
    b.host.dial(a.address());
    // As the random bytes have it: at once, or when the handshake runs out of time.
    EXPECT_TRUE(run_until([&] {
        return a.host.counters().handshakes_failed > 0 && b.host.counters().handshakes_failed > 0;
    }));
    EXPECT_TRUE(a.connected.empty());
    EXPECT_TRUE(b.connected.empty());
}

TEST_F(HostTest, two_hosts_that_dial_each_other_keep_one_connection) {
    auto& a = start(1);
    auto& b = start(2);
    a.host.dial(b.address());
    b.host.dial(a.address());
    auto const have_both = [&](std::size_t count) {
        return run_until([&] {
            return a.host.connections().size() == count && b.host.connections().size() == count;
        });
    };
    ASSERT_TRUE(have_both(2));
    ASSERT_TRUE(have_both(1));
    run_for(200ms);
    ASSERT_EQ(a.host.connections().size(), 1u);
    bool const a_is_smaller = a.host.id() < b.host.id();
    EXPECT_EQ(a.host.connections()[0].outbound, a_is_smaller);
    EXPECT_TRUE(a.disconnected.empty());
    EXPECT_TRUE(b.disconnected.empty());
}

// The link is up, the peer reads nothing and says nothing: three pings of 2.5 s are missed.
TEST_F(HostTest, a_peer_that_does_not_answer_is_given_up) {
    auto& a = start(1);
    auto const upgraded = run(shake_hands(io_, options_of(5), a.address()));
    ASSERT_TRUE(upgraded) << upgraded.error().text();
    ASSERT_TRUE(run_until([&] { return a.connected.size() == 1; }));
    auto const since = now();
    EXPECT_TRUE(run_until([&] { return a.disconnected.size() == 1; }));
    EXPECT_GT(now() - since, 7s); // One miss is nothing.
}

} // namespace
} // namespace exo::net::test
