// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "net/host/channel.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace exo::net {
namespace {

Identity const& identity(std::uint8_t value) {
    static auto const make = [](std::uint8_t byte) {
        Seed seed{};
        seed.fill(byte);
        return Identity::from_seed(seed);
    };
    static Identity const one = make(1);
    static Identity const two = make(2);
    return value == 1 ? one : two;
}

ChannelSecrets secrets(std::uint8_t value) {
    ChannelSecrets result;
    result.nonce.fill(value);
    result.noise.static_key.fill(static_cast<std::uint8_t>(value + 1));
    result.noise.ephemeral_key.fill(static_cast<std::uint8_t>(value + 2));
    return result;
}

struct Pair {
    explicit Pair(char const* dialer_namespace = "test", char const* listener_namespace = "test")
        : dialer(
              Direction::outbound,
              psk_of_namespace(dialer_namespace),
              identity(1),
              secrets(0x10),
              identity(2).peer_id()
          )
        , listener(
              Direction::inbound,
              psk_of_namespace(listener_namespace),
              identity(2),
              secrets(0x20),
              std::nullopt
          ) {}

    Channel dialer;
    Channel listener;
};

Result<void> feed(Channel& channel, Bytes bytes, std::size_t size) {
    for (std::size_t at = 0; at < bytes.size(); at += size) {
        auto const length = std::min(size, bytes.size() - at);
        EXO_TRY(channel.receive(std::span(bytes).subspan(at, length)));
    }
    return {};
}

// Moves bytes both ways, in pieces of `size`, until there are none.
Result<void> settle(Pair& pair, std::size_t size) {
    while (true) {
        auto to_listener = pair.dialer.take_output();
        auto to_dialer = pair.listener.take_output();
        if (to_listener.empty() && to_dialer.empty()) {
            return {};
        }
        EXO_TRY(feed(pair.listener, std::move(to_listener), size));
        EXO_TRY(feed(pair.dialer, std::move(to_dialer), size));
    }
}

TEST(Channel, any_cut_ends_with_both_knowing_the_other) {
    for (std::size_t size = 1; size <= 300; ++size) {
        Pair pair;
        ASSERT_TRUE(settle(pair, size)) << "pieces of " << size;
        ASSERT_TRUE(pair.dialer.ready());
        ASSERT_TRUE(pair.listener.ready());
        EXPECT_EQ(pair.dialer.peer(), identity(2).peer_id());
        EXPECT_EQ(pair.listener.peer(), identity(1).peer_id());
        EXPECT_TRUE(pair.dialer.take_plain().empty());
        EXPECT_TRUE(pair.listener.take_plain().empty());
    }
}

// specs/libp2p.md 1.4 and 4: with V1Lazy the muxer's negotiation and its first frames come
// together.
TEST(Channel, what_a_lazy_dialer_sends_before_the_answer_arrives_in_order) {
    for (std::size_t const size : {1u, 7u, 100u, 10'000u}) {
        Pair pair;
        ASSERT_TRUE(feed(pair.listener, pair.dialer.take_output(), size));
        ASSERT_TRUE(feed(pair.dialer, pair.listener.take_output(), size));
        ASSERT_TRUE(pair.dialer.ready());
        EXPECT_FALSE(pair.listener.ready());
        pair.dialer.send(as_bytes("first frames"));
        ASSERT_TRUE(feed(pair.listener, pair.dialer.take_output(), size));
        ASSERT_TRUE(pair.listener.ready());
        EXPECT_EQ(as_text(pair.listener.take_plain()), "first frames");
        pair.listener.send(as_bytes("answer"));
        ASSERT_TRUE(feed(pair.dialer, pair.listener.take_output(), size));
        EXPECT_EQ(as_text(pair.dialer.take_plain()), "answer");
    }
}

TEST(Channel, the_dialer_sends_nonce_proposal_and_first_message_at_once) {
    Pair pair;
    // Nonce 24, header 20, "/noise" 8, Noise message 34: no round trip is lost.
    EXPECT_EQ(pair.dialer.take_output().size(), 24u + 20 + 8 + 34);
    EXPECT_EQ(pair.listener.take_output().size(), 24u);
}

TEST(Channel, another_namespace_is_an_error_or_silence_but_never_ready) {
    int errors_count = 0;
    for (int i = 0; i < 20; ++i) {
        Pair pair(("other " + std::to_string(i)).c_str(), "test");
        errors_count += settle(pair, 1000) ? 0 : 1;
        EXPECT_FALSE(pair.dialer.ready());
        EXPECT_FALSE(pair.listener.ready());
    }
    EXPECT_GT(errors_count, 0);
}

TEST(Channel, a_private_and_a_public_side_never_get_ready) {
    for (bool const dialer_is_private : {false, true}) {
        auto const psk = psk_of_namespace("test");
        Channel dialer(
            Direction::outbound,
            dialer_is_private ? std::optional(psk) : std::nullopt,
            identity(1),
            secrets(0x10),
            std::nullopt
        );
        Channel listener(
            Direction::inbound,
            dialer_is_private ? std::nullopt : std::optional(psk),
            identity(2),
            secrets(0x20),
            std::nullopt
        );
        if (feed(listener, dialer.take_output(), 1000)) {
            (void)feed(dialer, listener.take_output(), 1000);
        }
        EXPECT_FALSE(dialer.ready());
        EXPECT_FALSE(listener.ready());
    }
}

// The driver's time-out ends it; until then there is nothing to say and nothing is kept.
TEST(Channel, silence_is_answered_with_silence) {
    Pair pair;
    EXPECT_EQ(pair.listener.take_output().size(), pnet::nonce_bytes);
    EXPECT_TRUE(pair.listener.take_output().empty());
    EXPECT_FALSE(pair.listener.ready());
}

TEST(Channel, random_bytes_never_get_ready_and_say_so_soon) {
    Random random(3);
    for (int i = 0; i < 500; ++i) {
        bool const is_private = i % 2 == 0;
        Channel listener(
            Direction::inbound,
            is_private ? std::optional(psk_of_namespace("test")) : std::nullopt,
            identity(2),
            secrets(0x20),
            std::nullopt
        );
        Bytes bytes(5'000);
        std::ranges::generate(bytes, [&] { return static_cast<std::uint8_t>(random.next()); });
        // A possible length makes it wait, but for less than it has got here.
        EXPECT_FALSE(feed(listener, bytes, 1 + random.below(1'000)));
        EXPECT_FALSE(listener.ready());
    }
}

TEST(Channel, lengths_over_the_limits_are_refused_before_their_bytes_come) {
    auto const public_listener = [] {
        return Channel(Direction::inbound, std::nullopt, identity(2), secrets(0x20), std::nullopt);
    };
    auto long_line = public_listener();
    EXPECT_FALSE(feed(long_line, {0x81, 0x08}, 2)); // 1025 bytes of multistream.
    auto long_message = public_listener();
    auto proposal = as_bytes("\x13/multistream/1.0.0\n\x07/noise\n");
    ASSERT_TRUE(feed(long_message, Bytes(proposal.begin(), proposal.end()), 100));
    EXPECT_FALSE(feed(long_message, {0x10, 0x01}, 2)); // 4097 bytes of Noise handshake.
}

TEST(Channel, every_changed_byte_of_the_handshake_is_noticed) {
    Pair reference;
    auto const first = reference.dialer.take_output();
    for (std::size_t at = 24; at < first.size(); ++at) { // Behind the nonce.
        Pair pair;
        auto changed = first;
        changed[at] ^= 1;
        (void)pair.dialer.take_output();
        auto const result = feed(pair.listener, changed, changed.size());
        // A changed length may wait for more; a changed key is noticed with the answer.
        if (result) {
            (void)feed(pair.dialer, pair.listener.take_output(), 1000);
        }
        EXPECT_FALSE(pair.dialer.ready()) << at;
        EXPECT_FALSE(pair.listener.ready()) << at;
    }
}

} // namespace
} // namespace exo::net
