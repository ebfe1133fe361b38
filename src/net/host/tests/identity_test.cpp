// SPDX-License-Identifier: Apache-2.0
//
// Identify, identify/push and ping of a Host with peers of other libraries' manners.
#include "raw_peer.hpp"

namespace exo::net::test {
namespace {

constexpr char const* answers = "/exo/answers/1.0.0";

class IdentityTest : public RawPeerTest {
protected:
    void push(RawPeer& raw, identify::Message const& message) {
        auto const stream = open(raw, identify::push_protocol);
        say(*stream, identify::encode(message));
        stream->close_write();
        run_for(50ms);
    }

    [[nodiscard]] static std::optional<bool> speaks(Node& host, std::string const& protocol) {
        return host.host.speaks(options_of(5).identity.peer_id(), protocol);
    }
};

TEST_F(IdentityTest, a_change_of_our_addresses_is_pushed_to_all_peers) {
    auto options = options_of(1);
    options.identify.push_pause = 20ms;
    auto& a = start(options);
    std::vector<identify::Message> pushed;
    std::vector<std::shared_ptr<RawPeer>> raws;
    for (auto const seed : {std::uint8_t{5}, std::uint8_t{6}}) {
        raws.push_back(dial(a, seed));
        raws.back()->handle(
            identify::push_protocol,
            [&](std::unique_ptr<MuxStream> stream) -> asio::awaitable<void> {
                auto const bytes = co_await read_message(*stream, 4096);
                if (bytes) {
                    pushed.push_back(identify::decode(*bytes).value());
                }
            }
        );
    }
    auto const deaf = dial(a, 7); // Refuses pushes, which is no harm.
    ASSERT_TRUE(run_until([&] { return a.connected.size() == 3; }));
    run_for(50ms);
    EXPECT_TRUE(pushed.empty());
    for (int i = 0; i < 5; ++i) { // Several changes at once are told of once.
        a.host.announce_addresses();
    }
    ASSERT_TRUE(run_until([&] { return pushed.size() == 2; }));
    run_for(100ms);
    ASSERT_EQ(pushed.size(), 2U);
    EXPECT_EQ(pushed[0].listen, std::vector{a.address()});
    EXPECT_EQ(pushed[0].agent_version, "exo/test");
    EXPECT_NE(std::ranges::find(pushed[0].protocols, RawPeer::gossip), pushed[0].protocols.end());
    EXPECT_TRUE(deaf->is_open());
}

TEST_F(IdentityTest, a_push_changes_what_it_says_and_nothing_else) {
    auto& a = start(1);
    auto const raw = dial(a);
    push(*raw, {.protocols = {answers}, .agent_version = "first"});
    EXPECT_EQ(speaks(a, answers), true);
    push(*raw, {.agent_version = "second"});
    EXPECT_EQ(speaks(a, answers), true);
    push(*raw, {.protocols = {"/another/1.0.0"}});
    EXPECT_EQ(speaks(a, answers), false);
}

TEST_F(IdentityTest, with_the_key_of_somebody_else_is_not_taken) {
    auto& a = start(1);
    auto const raw = dial(a);
    push(*raw, {.public_key = options_of(6).identity.public_key(), .protocols = {answers}});
    EXPECT_EQ(speaks(a, answers), std::nullopt);
    push(*raw, {.public_key = options_of(5).identity.public_key(), .protocols = {answers}});
    EXPECT_EQ(speaks(a, answers), true);
}

TEST_F(IdentityTest, over_its_limits_is_not_taken) {
    auto options = options_of(1);
    options.identify.message_bytes_max = 100;
    options.identify.entries_max = 2;
    auto& a = start(options);
    auto const raw = dial(a);
    push(*raw, {.protocols = {answers}, .agent_version = std::string(100, 'x')});
    push(*raw, {.protocols = {answers, "/1", "/2"}});
    EXPECT_EQ(speaks(a, answers), std::nullopt);
    push(*raw, {.protocols = {answers, "/1"}});
    EXPECT_EQ(speaks(a, answers), true);
}

TEST_F(IdentityTest, who_does_not_end_what_it_says_is_not_waited_for) {
    auto options = options_of(1);
    options.identify.patience = 50ms;
    auto& a = start(options);
    auto const raw = dial(a);
    auto const stream = open(*raw, identify::push_protocol);
    ASSERT_TRUE(run(stream->write(Bytes{100, 1, 2, 3})));
    Bytes byte(1);
    auto const read = run(stream->read_some(byte));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code(), Errc::cancelled);
}

HostOptions pinging_quickly() {
    auto options = options_of(1);
    options.ping = {.interval = 50ms, .timeout = 50ms, .misses_max = 3};
    return options;
}

TEST_F(IdentityTest, pings_that_are_not_answered_three_times_end_the_connection) {
    auto& a = start(pinging_quickly());
    auto const raw = dial(a);
    int asked = 0;
    raw->handle(ping::protocol, [&](std::unique_ptr<MuxStream> stream) -> asio::awaitable<void> {
        auto const kept = std::move(stream);
        ++asked;
        co_await pause_until(now() + 10s);
    });
    auto const since = now();
    ASSERT_TRUE(run_until([&] { return a.disconnected.size() == 1; }));
    EXPECT_GE(now() - since, 100ms);
    EXPECT_GE(asked, 2);
}

// js resets every ping stream after 10 s: one ping of each is lost.
TEST_F(IdentityTest, ping_streams_that_are_reset_now_and_then_do_not_end_it) {
    auto& a = start(pinging_quickly());
    auto const raw = dial(a);
    int answered = 0;
    int reset = 0;
    raw->handle(ping::protocol, [&](std::unique_ptr<MuxStream> stream) -> asio::awaitable<void> {
        for (int i = 0; i < 2; ++i) {
            Bytes payload(ping::payload_bytes);
            auto const count = co_await stream->read_some(payload);
            if (!count || *count == 0) {
                co_return;
            }
            if (i == 1) {
                ++reset;
                stream->reset(); // The question is there, its answer never comes.
                co_return;
            }
            ++answered;
            auto const written = co_await stream->write(payload);
            if (!written) {
                co_return;
            }
        }
    });
    EXPECT_TRUE(run_until([&] { return reset >= 4; }));
    EXPECT_GE(answered, 4);
    EXPECT_TRUE(a.disconnected.empty());
}

TEST_F(IdentityTest, a_peer_that_refuses_ping_stays) {
    auto& a = start(pinging_quickly());
    auto upgraded = run(shake_hands(io_, options_of(5), a.address()));
    ASSERT_TRUE(upgraded);
    auto const raw = std::make_shared<RawPeer>(io_, std::move(*upgraded));
    raw->refuse(ping::protocol);
    raw->run();
    run_for(500ms);
    EXPECT_EQ(a.host.connected_peers().size(), 1U);
    EXPECT_TRUE(raw->is_open());
}

// go sends its next payload at once when it has its answer, and leaves.
TEST_F(IdentityTest, two_payloads_in_one_go_are_both_echoed_and_the_end_is_the_askers) {
    auto& a = start(1);
    auto const raw = dial(a);
    auto const stream = open(*raw, ping::protocol);
    Bytes sent(2 * ping::payload_bytes);
    for (std::size_t i = 0; i < sent.size(); ++i) {
        sent[i] = static_cast<std::uint8_t>(i);
    }
    ASSERT_TRUE(run(stream->write(sent)));
    Bytes echoed;
    while (echoed.size() < sent.size()) {
        Bytes buffer(sent.size());
        auto const count = run(stream->read_some(buffer));
        ASSERT_TRUE(count);
        ASSERT_GT(*count, 0U);
        append(echoed, BytesView(buffer).first(*count));
    }
    EXPECT_EQ(echoed, sent);
    stream->close_write();
    Bytes byte(1);
    auto const end = run(stream->read_some(byte));
    ASSERT_TRUE(end);
    EXPECT_EQ(*end, 0U);
}

} // namespace
} // namespace exo::net::test
