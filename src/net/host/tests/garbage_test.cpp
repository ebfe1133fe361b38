// SPDX-License-Identifier: Apache-2.0
//
// Strangers at the listening port: none does harm, and none lasts.
#include "base/random.hpp"
#include "host_fixture.hpp"
#include "stranger.hpp"

#include <boost/asio/write.hpp>

#include <filesystem>

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

// What strangers say in the flood: nothing; the beginning of a good handshake; random bytes.
Bytes first_words(Random& random, std::size_t number) {
    if (number % 3 == 0) {
        return {};
    }
    if (number % 3 == 1) {
        return random_bytes(random, 1 + random.below(2'000));
    }
    ChannelSecrets secrets;
    secrets.noise.static_key.fill(3);
    secrets.noise.ephemeral_key.fill(static_cast<std::uint8_t>(number + 1));
    auto const options = options_of(9);
    Channel dialer(Direction::outbound, options.psk, options.identity, secrets, std::nullopt);
    return dialer.take_output();
}

std::size_t open_files() {
    auto const files = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST_F(HostTest, ten_thousand_strangers_leave_the_node_serving) {
    constexpr std::size_t strangers_count = 10'000;
    constexpr std::size_t batch_size = 200; // Two batches are connected at a time.
    auto& a = start(1);
    auto& b = start(2);
    Random random(11);
    auto const files_before = open_files();
    std::vector<std::unique_ptr<Stranger>> batch;
    for (std::size_t seen = 0; seen < strangers_count; seen += batch_size) {
        std::vector<std::unique_ptr<Stranger>> next;
        for (std::size_t i = 0; i < batch_size; ++i) {
            auto const ip = "127.0.1." + std::to_string(1 + i % 40);
            next.push_back(std::make_unique<Stranger>(io_, a.address(), ip));
            (void)next.back()->say(first_words(random, seen + i));
        }
        // All but those who may stand at the door have been dealt with.
        ASSERT_TRUE(run_until([&] {
            auto const counters = a.host.counters();
            auto const done = counters.handshakes_failed + counters.pending_evicted;
            return done + HostLimits().pending_max >= seen + batch_size;
        })) << seen;
        batch = std::move(next);
        if (seen == strangers_count / 2) {
            // The door is full of them; an honest peer comes in and is heard.
            connect(b, a);
        }
    }
    EXPECT_EQ(a.connected.size(), 1u);
    EXPECT_EQ(b.connected.size(), 1u);
    ASSERT_TRUE(run_until([&] {
        (void)b.host.publish("events", as_bytes("still here"));
        return !a.gossip.empty();
    }));
    EXPECT_TRUE(b.disconnected.empty());
    batch.clear();
    EXPECT_TRUE(run_until([&] {
        auto const counters = a.host.counters();
        return counters.handshakes_failed + counters.pending_evicted == strangers_count;
    }));
    EXPECT_TRUE(run_until([&] { return open_files() <= files_before + 2; })); // Of the connection.
}

// Also where all come from the same address as the honest peer.
TEST_F(HostTest, a_newcomer_gets_in_past_silent_strangers_of_its_own_address) {
    auto& a = start(1);
    std::vector<std::unique_ptr<Stranger>> strangers;
    for (int i = 0; i < 100; ++i) {
        strangers.push_back(std::make_unique<Stranger>(io_, a.address()));
    }
    run_for(50ms);
    auto& b = start(2);
    connect(b, a);
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

// A stream has ended both ways and its handler still holds it; the peer opens another with its id.
TEST_F(HostTest, an_id_that_comes_again_is_another_stream) {
    constexpr std::string_view protocol = "/exo/sink/1.0.0";
    auto& a = add(options_of(1));
    std::vector<std::unique_ptr<Stream>> taken;
    a.host.handle(
        std::string(protocol),
        [&](std::unique_ptr<Stream> stream) -> asio::awaitable<void> {
            stream->close_write();
            taken.push_back(std::move(stream));
            co_return;
        }
    );
    ASSERT_TRUE(a.host.start());
    auto upgraded = run(shake_hands(io_, options_of(5), a.address()));
    ASSERT_TRUE(upgraded) << upgraded.error().text();
    auto const words =
        multistream::Dialer({std::string(protocol)}, multistream::Mode::wait).take_output();
    Bytes frame;
    yamux::append_header(
        frame,
        {.flags = yamux::flag::syn | yamux::flag::fin,
         .stream = 1,
         .length = static_cast<std::uint32_t>(words.size())}
    );
    append(frame, words);
    for (std::size_t i = 1; i <= 3; ++i) {
        upgraded->channel->send(frame);
        auto const output = upgraded->channel->take_output();
        asio::write(upgraded->socket, asio::buffer(output));
        ASSERT_TRUE(run_until([&] { return taken.size() == i; })) << i;
    }
    std::array<std::uint8_t, 1> byte{};
    for (auto const& stream : taken) {
        EXPECT_EQ(run(stream->read_some(byte)).value(), 0u);
    }
    taken.clear();
    EXPECT_EQ(a.host.connections().size(), 1u);
}

} // namespace
} // namespace exo::net::test
