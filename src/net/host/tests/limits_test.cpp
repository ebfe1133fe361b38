// SPDX-License-Identifier: Apache-2.0
//
// Every limit of a Host, reached: with small limits where the default ones would take long.
#include "host_fixture.hpp"
#include "stranger.hpp"

namespace exo::net::test {
namespace {

constexpr auto sink = "/exo/sink/1.0.0";

class LimitsTest : public HostTest {
protected:
    static HostOptions limited(HostLimits const& limits) {
        auto options = options_of(1);
        options.limits = limits;
        return options;
    }

    // A host that keeps the streams of `sink` and reads none of them.
    Node& start_sink(HostLimits const& limits) {
        auto& node = add(limited(limits));
        node.host.handle(sink, [this](std::unique_ptr<Stream> stream) -> asio::awaitable<void> {
            taken_.push_back(std::move(stream));
            co_return;
        });
        EXPECT_TRUE(node.host.start());
        return node;
    }

    BarePeer bare_peer(Node const& node) {
        auto upgraded = run(shake_hands(io_, options_of(5), node.address()));
        EXPECT_TRUE(upgraded) << upgraded.error().text();
        return BarePeer(io_, std::move(*upgraded), HostLimits());
    }

    std::vector<std::unique_ptr<Stream>> taken_;
};

TEST_F(LimitsTest, strangers_of_all_addresses_together_have_so_many_places) {
    auto& a = start(limited({.pending_max = 3}));
    std::vector<std::unique_ptr<Stranger>> strangers;
    for (int i = 0; i < 5; ++i) {
        auto const ip = "127.0.2." + std::to_string(1 + i);
        strangers.push_back(std::make_unique<Stranger>(io_, a.address(), ip));
        strangers.back()->await_end();
    }
    ASSERT_TRUE(run_until([&] { return a.host.counters().pending_evicted == 2; }));
    run_for(50ms);
    for (std::size_t i = 0; i < strangers.size(); ++i) {
        EXPECT_EQ(strangers[i]->ended(), i < 2) << i; // The two who came first.
    }
}

TEST_F(LimitsTest, a_silent_stranger_is_shown_out_at_the_time_out) {
    auto& a = start(limited({.upgrade_timeout = 100ms}));
    Stranger stranger(io_, a.address());
    stranger.await_end();
    EXPECT_TRUE(run_until([&] { return stranger.ended(); }, 5s));
    EXPECT_EQ(a.host.counters().handshakes_failed, 1u);
}

TEST_F(LimitsTest, a_listener_that_never_answers_is_given_up) {
    asio::ip::tcp::acceptor acceptor(io_, Endpoint(asio::ip::address_v4::loopback(), 0));
    auto const options = limited({.upgrade_timeout = 100ms});
    Transport transport(io_.get_executor(), options.identity, options.psk, options.limits);
    auto const port = acceptor.local_endpoint().port();
    auto const address = Multiaddr::tcp("127.0.0.1", port).value();
    auto socket = run(transport.connect(*address.tcp_target()));
    ASSERT_TRUE(socket);
    auto const result =
        run(transport.upgrade(std::move(*socket), Direction::outbound, std::nullopt), 5s);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::timed_out);
}

TEST_F(LimitsTest, an_address_that_does_not_answer_is_given_up) {
    // Its queue holds one connection; further ones get no answer.
    asio::ip::tcp::acceptor acceptor(io_, Endpoint(asio::ip::address_v4::loopback(), 0));
    acceptor.listen(0);
    std::vector<Socket> waiting;
    for (int i = 0; i < 4; ++i) {
        waiting.emplace_back(io_).async_connect(acceptor.local_endpoint(), [](auto) {});
    }
    run_for(50ms);
    auto const options = limited({.connect_timeout = 100ms});
    Transport transport(io_.get_executor(), options.identity, options.psk, options.limits);
    auto const port = acceptor.local_endpoint().port();
    auto const address = Multiaddr::tcp("127.0.0.1", port).value();
    auto const socket = run(transport.connect(*address.tcp_target()), 5s);
    ASSERT_FALSE(socket);
    EXPECT_EQ(socket.error().code(), Errc::timed_out);
}

TEST_F(LimitsTest, a_host_holds_so_many_connections) {
    auto& a = start(limited({.connections_max = 1}));
    auto& b = start(2);
    auto& c = start(3);
    connect(b, a);
    c.host.dial(a.address());
    EXPECT_TRUE(run_until([&] { return c.host.counters().handshakes_failed > 0; }));
    EXPECT_EQ(a.host.connections().size(), 1u);
    EXPECT_TRUE(a.sees(b));
    EXPECT_TRUE(c.connected.empty());
}

TEST_F(LimitsTest, a_stream_that_names_no_protocol_is_refused_at_the_time_out) {
    auto& a = start(limited({.negotiation_timeout = 100ms}));
    auto const peer = bare_peer(a);
    auto const stream = peer.connection()->open().value();
    std::array<std::uint8_t, 1> byte{};
    auto const result = run(stream->read_some(byte), 5s);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::cancelled);
    EXPECT_GE(a.host.counters().streams_refused, 1u);
    EXPECT_FALSE(peer.ended());
}

TEST_F(LimitsTest, a_connection_has_so_many_streams_and_goes_on) {
    HostLimits limits;
    limits.mux.streams_max = 10;
    auto& a = start_sink(limits);
    auto const peer = bare_peer(a);
    std::vector<OpenedStream> streams;
    auto last = run(open_negotiated(peer.connection(), {sink}));
    while (last) {
        streams.push_back(std::move(*last));
        ASSERT_LE(streams.size(), limits.mux.streams_max);
        last = run(open_negotiated(peer.connection(), {sink}));
    }
    EXPECT_EQ(last.error().code(), Errc::cancelled) << last.error().text();
    EXPECT_GE(streams.size(), 5u); // The rest are the host's own: identify, ping, gossip.
    streams.pop_back();
    taken_.clear();
    EXPECT_TRUE(run_until([&] {
        return run(open_negotiated(peer.connection(), {sink})).has_value();
    }));
}

// 5,000 streams that are opened and reset at once: no more are served at a time than may be open.
TEST_F(LimitsTest, streams_that_are_reset_at_once_do_not_pile_up) {
    HostLimits limits;
    limits.mux.streams_max = 20;
    auto& a = start_sink(limits);
    auto upgraded = run(shake_hands(io_, options_of(5), a.address()));
    ASSERT_TRUE(upgraded) << upgraded.error().text();
    Bytes frames;
    for (std::uint32_t id = 1; id < 10'000; id += 2) {
        auto const type = yamux::FrameType::window_update;
        yamux::append_header(frames, {.type = type, .flags = yamux::flag::syn, .stream = id});
        yamux::append_header(frames, {.type = type, .flags = yamux::flag::rst, .stream = id});
    }
    upgraded->channel->send(frames);
    auto const output = upgraded->channel->take_output();
    asio::write(upgraded->socket, asio::buffer(output));
    EXPECT_TRUE(run_until([&] { return a.host.counters().streams_refused >= 10; }));
    run_for(100ms);
    EXPECT_LE(a.host.counters().streams_refused, 500u); // As many for each read at most.
    EXPECT_EQ(a.host.connections().size(), 1u);
}

TEST_F(LimitsTest, a_peer_writes_so_much_that_nobody_reads_and_no_more) {
    HostLimits limits;
    limits.mux.streams_max = 16;
    auto& a = start_sink(limits);
    auto const peer = bare_peer(a);
    std::vector<std::unique_ptr<MuxStream>> streams;
    std::uint64_t written = 0;
    Bytes const piece(10'000, 7);
    auto fill = [&](MuxStream& stream) -> asio::awaitable<void> {
        while (true) {
            auto const result = co_await stream.write(piece);
            if (!result) {
                co_return;
            }
            written += piece.size();
        }
    };
    for (int i = 0; i < 10; ++i) {
        auto opened = run(open_negotiated(peer.connection(), {sink}));
        ASSERT_TRUE(opened) << opened.error().text();
        streams.push_back(std::move(opened->stream));
        asio::co_spawn(io_, fill(*streams.back()), [](std::exception_ptr) {});
    }
    std::uint64_t before = 0;
    do { // Until nothing moves any more.
        before = written;
        run_for(200ms);
    } while (written > before);
    // Each stream its window, less what the negotiation took and the piece that did not fit whole.
    std::uint64_t const windows = streams.size() * yamux::initial_window_bytes;
    EXPECT_LE(written, windows);
    EXPECT_GE(written, windows - streams.size() * (piece.size() + 100));
    EXPECT_LE(written, limits.mux.unread_bytes_max());
    EXPECT_EQ(a.host.connections().size(), 1u);
    for (auto const& stream : streams) {
        stream->reset();
    }
    run_for(50ms);
}

// The keep-alive of yamux, for peers that libp2p's ping does not reach.
TEST_F(LimitsTest, a_connection_that_answers_no_keep_alive_ends) {
    HostLimits limits;
    limits.mux.ping_timeout = 300ms;
    auto& a = start(limited(limits));
    auto const upgraded = run(shake_hands(io_, options_of(5), a.address()));
    ASSERT_TRUE(upgraded) << upgraded.error().text();
    ASSERT_TRUE(run_until([&] { return a.connected.size() == 1; }));
    EXPECT_TRUE(run_until([&] { return a.disconnected.size() == 1; }, 5s));
}

} // namespace
} // namespace exo::net::test
