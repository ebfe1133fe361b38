// SPDX-License-Identifier: Apache-2.0
//
// Strangers at the listening port: none does harm, and none lasts.
#include "base/random.hpp"
#include "host_fixture.hpp"
#include "stranger.hpp"

#include <boost/asio/write.hpp>

namespace exo::net::test {
namespace {

Bytes random_bytes(Random& random, std::size_t size) {
    Bytes bytes(size);
    for (auto& byte : bytes) {
        byte = static_cast<std::uint8_t>(random.next());
    }
    return bytes;
}

TEST_F(HostTest, random_bytes_at_the_port_do_no_harm) {
    auto& a = start(1);
    Random random(7);
    std::vector<std::unique_ptr<Stranger>> strangers;
    for (int i = 0; i < 10; ++i) {
        strangers.push_back(std::make_unique<Stranger>(io_, a.address()));
        (void)strangers.back()->say(random_bytes(random, 1 + random.below(10'000)));
        strangers.back()->await_end();
    }
    // Those whose bytes happen to say "wait for more" are closed at the time-out.
    EXPECT_TRUE(run_until([&] {
        return std::ranges::all_of(strangers, [](auto const& one) { return one->ended(); });
    }));
    EXPECT_EQ(a.host.counters().handshakes_failed, 10u);
    auto& b = start(2);
    connect(b, a);
}

TEST_F(HostTest, one_address_cannot_take_all_places_at_the_door) {
    auto& a = start(1);
    std::vector<std::unique_ptr<Stranger>> strangers;
    for (int i = 0; i < 40; ++i) {
        strangers.push_back(std::make_unique<Stranger>(io_, a.address()));
        strangers.back()->await_end();
    }
    auto const ended = [&] {
        return std::ranges::count_if(strangers, [](auto const& one) { return one->ended(); });
    };
    EXPECT_TRUE(run_until([&] { return ended() == 24; }, 5s)); // All but 16, at once.
    EXPECT_EQ(a.host.counters().handshakes_failed, 0u);
}

// A peer with the right key and a good handshake that then speaks nonsense instead of yamux.
TEST_F(HostTest, garbage_behind_the_handshake_ends_the_connection) {
    auto& a = start(1);
    auto upgraded = run(shake_hands(io_, options_of(5), a.address()));
    ASSERT_TRUE(upgraded) << upgraded.error().text();
    ASSERT_TRUE(run_until([&] { return a.connected.size() == 1; }));
    Random random(9);
    upgraded->channel->send(random_bytes(random, 1000));
    auto const output = upgraded->channel->take_output();
    asio::write(upgraded->socket, asio::buffer(output));
    EXPECT_TRUE(run_until([&] { return a.disconnected.size() == 1; }));
    EXPECT_TRUE(a.host.connections().empty());
}

} // namespace
} // namespace exo::net::test
