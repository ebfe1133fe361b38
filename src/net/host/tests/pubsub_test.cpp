// SPDX-License-Identifier: Apache-2.0
//
// Gossip of a Host with peers that are not like it: several connections and streams, streams that
// are lost, refusals, RPCs that are too large.
#include "net/gossipsub/message.hpp"
#include "raw_peer.hpp"

namespace exo::net::test {
namespace {

gossipsub::pb::Rpc subscription() {
    gossipsub::pb::Rpc rpc;
    auto& entry = *rpc.add_subscriptions();
    entry.set_subscribe(true);
    entry.set_topic("events");
    return rpc;
}

gossipsub::pb::Rpc publication(std::uint8_t author, std::string const& text) {
    auto const identity = options_of(author).identity;
    static std::uint64_t number = 0;
    auto const message = gossipsub::sign_message(identity, ++number, "events", as_bytes(text));
    gossipsub::pb::Rpc rpc;
    rpc.add_publish(std::string(as_text(*message.encoded)));
    return rpc;
}

HostOptions quick_options() {
    auto options = options_of(1);
    options.gossip.stream_reopen_pause = 10ms;
    return options;
}

class PubSubTest : public RawPeerTest {
protected:
    // Messages arrive that host `a` publishes.
    bool hears(Node& a, RawPeer& raw) {
        auto const before = raw.messages();
        return run_until([&] {
            EXPECT_TRUE(a.host.publish("events", as_bytes("hello")));
            run_for(50ms);
            return raw.messages() > before;
        });
    }
};

TEST_F(PubSubTest, subscriptions_are_said_once_and_not_on_each_connection) {
    auto& a = start(1);
    auto const first = dial(a);
    ASSERT_TRUE(run_until([&] { return first->subscriptions() == 1; }));
    auto const second = dial(a);
    ASSERT_TRUE(run_until([&] { return a.host.connections().size() == 2; }));
    run_for(300ms);
    EXPECT_EQ(first->subscriptions(), 1);
    EXPECT_EQ(second->subscriptions(), 0);
    EXPECT_EQ(a.connected.size(), 1U);
}

// rust spreads what it says over all connections of a peer (specs/libp2p.md 1.3).
TEST_F(PubSubTest, of_one_peer_is_read_from_all_connections_and_lasts_as_long_as_one_of_them) {
    auto& a = start(1);
    auto const first = dial(a);
    auto const second = dial(a);
    ASSERT_TRUE(run_until([&] { return a.host.connections().size() == 2; }));
    auto const on_first = open(*first, RawPeer::gossip);
    say(*on_first, subscription());
    ASSERT_TRUE(hears(a, *first));
    auto on_second = open(*second, RawPeer::gossip);
    say(*on_second, publication(5, "by the second"));
    ASSERT_TRUE(run_until([&] { return a.gossip.size() == 1; }));
    first->close();
    ASSERT_TRUE(run_until([&] { return a.host.connections().size() == 1; }));
    EXPECT_TRUE(hears(a, *second));        // Its subscription has not been forgotten.
    EXPECT_EQ(second->subscriptions(), 1); // Ours is said anew on a new stream.
    EXPECT_TRUE(a.disconnected.empty());
}

TEST_F(PubSubTest, of_the_gossip_streams_of_a_connection_the_newest_is_read) {
    auto& a = start(1);
    auto const raw = dial(a);
    auto const older = open(*raw, RawPeer::gossip);
    say(*older, publication(5, "first"));
    ASSERT_TRUE(run_until([&] { return a.gossip.size() == 1; }));
    for (std::size_t i = 2; i < 10; ++i) { // Also more of them than rust takes.
        auto const newer = open(*raw, RawPeer::gossip);
        say(*newer, publication(5, "on another"));
        ASSERT_TRUE(run_until([&] { return a.gossip.size() == i; }));
    }
    Bytes byte(1);
    auto const read = run(older->read_some(byte));
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code(), Errc::cancelled); // Reset.
    EXPECT_TRUE(raw->is_open());
}

TEST_F(PubSubTest, an_rpc_over_8_mib_or_none_at_all_costs_the_stream_but_not_the_connection) {
    auto& a = start(1);
    auto const raw = dial(a);
    for (Bytes const& bytes : {Bytes{0x81, 0x80, 0x80, 0x04}, Bytes{3, 0xff, 0xff, 0xff}}) {
        auto const stream = open(*raw, RawPeer::gossip);
        ASSERT_TRUE(run(stream->write(bytes)));
        Bytes byte(1);
        auto const read = run(stream->read_some(byte));
        ASSERT_FALSE(read);
        EXPECT_EQ(read.error().code(), Errc::cancelled);
    }
    auto const stream = open(*raw, RawPeer::gossip);
    say(*stream, publication(5, "good"));
    EXPECT_TRUE(run_until([&] { return a.gossip.size() == 1; }));
}

TEST_F(PubSubTest, a_stream_that_is_lost_is_opened_again_with_our_subscriptions_at_most_4_times) {
    auto& a = start(quick_options());
    auto const raw = dial(a);
    int opened = 0;
    int said = 0;
    auto const read_one_and_reset = [&](std::unique_ptr<MuxStream> stream
                                    ) -> asio::awaitable<void> {
        ++opened;
        auto const bytes = co_await read_message(*stream, 10'000);
        gossipsub::pb::Rpc rpc;
        if (bytes && rpc.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()))) {
            said += rpc.subscriptions_size();
        }
        stream->reset();
    };
    raw->handle(RawPeer::gossip, read_one_and_reset);
    EXPECT_TRUE(run_until([&] { return said == 4; }));
    run_for(300ms);
    EXPECT_EQ(opened, 4);
    EXPECT_TRUE(raw->is_open());
}

TEST_F(PubSubTest, a_peer_that_refuses_gossip_is_not_asked_again) {
    auto& a = start(quick_options());
    auto upgraded = run(shake_hands(io_, options_of(5), a.address()));
    ASSERT_TRUE(upgraded);
    auto const raw = std::make_shared<RawPeer>(io_, std::move(*upgraded));
    raw->refuse(RawPeer::gossip);
    raw->run();
    run_for(300ms);
    raw->handle(RawPeer::gossip, [](std::unique_ptr<MuxStream>) -> asio::awaitable<void> {
        ADD_FAILURE() << "asked again";
        co_return;
    });
    ASSERT_TRUE(a.host.publish("events", as_bytes("hello")));
    run_for(300ms);
    EXPECT_TRUE(raw->is_open());
}

// It takes nothing while the host publishes more than fits: the host's memory is that of its
// limits, and others are served.
TEST_F(PubSubTest, a_peer_that_does_not_read_keeps_nobody_else_waiting) {
    auto& a = start(1);
    auto const raw = dial(a);
    raw->handle(RawPeer::gossip, [](std::unique_ptr<MuxStream> stream) -> asio::awaitable<void> {
        auto const kept = std::move(stream);
        co_await pause_until(TimePoint::max());
    });
    auto const stream = open(*raw, RawPeer::gossip);
    say(*stream, subscription());
    auto& b = start(2);
    connect(b, a);
    Bytes const large(1024 * 1024, 'x');
    for (int i = 0; i < 40; ++i) {
        ASSERT_TRUE(a.host.publish("events", large));
    }
    b.gossip.clear();
    EXPECT_TRUE(run_until([&] {
        EXPECT_TRUE(a.host.publish("events", as_bytes("small")));
        run_for(50ms);
        return std::ranges::any_of(b.gossip, [](auto const& one) { return one.data == "small"; });
    }));
    EXPECT_TRUE(raw->is_open());
}

} // namespace
} // namespace exo::net::test
