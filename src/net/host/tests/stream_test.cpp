// SPDX-License-Identifier: Apache-2.0
//
// Direct streams between hosts.
#include "host_fixture.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include <numeric>

namespace exo::net::test {
namespace {

constexpr auto echo = "/exo/echo/1.0.0";
constexpr auto sink = "/exo/sink/1.0.0";
constexpr std::size_t megabytes_8 = 8 * 1024 * 1024;

Bytes pattern(std::size_t size) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        bytes[i] = static_cast<std::uint8_t>(i * 31 + (i >> 8) + (i >> 16));
    }
    return bytes;
}

// Until its end. An error ends it early.
asio::awaitable<Result<Bytes>> read_all(Stream& stream) {
    Bytes all;
    Bytes buffer(10'000);
    while (true) {
        auto const count = co_await stream.read_some(buffer);
        if (!count) {
            co_return count.error();
        }
        if (*count == 0) {
            co_return all;
        }
        append(all, BytesView(buffer).first(*count));
    }
}

asio::awaitable<void> answer_with_the_same(std::unique_ptr<Stream> stream) {
    Bytes buffer(10'000);
    while (true) {
        auto const count = co_await stream->read_some(buffer);
        if (!count) {
            co_return;
        }
        if (*count == 0) {
            stream->close_write();
            co_return;
        }
        auto const written = co_await stream->write(BytesView(buffer).first(*count));
        if (!written) {
            co_return;
        }
    }
}

asio::awaitable<Result<Bytes>> write_and_end(Stream& stream, Bytes const& bytes) {
    auto const written = co_await stream.write(bytes);
    if (!written) {
        co_return written.error();
    }
    stream.close_write();
    co_return Bytes{};
}

class StreamTest : public HostTest {
protected:
    StreamTest()
        : a_(add(options_of(1)))
        , b_(add(options_of(2))) {
        b_.host.handle(echo, answer_with_the_same);
        b_.host.handle(sink, [this](std::unique_ptr<Stream> stream) -> asio::awaitable<void> {
            taken_.push_back(std::move(stream));
            co_return;
        });
        EXPECT_TRUE(a_.host.start());
        EXPECT_TRUE(b_.host.start());
        connect(a_, b_);
    }

    std::unique_ptr<Stream> open(std::string protocol) {
        auto opened = run(a_.host.open_stream(b_.host.id(), std::move(protocol)));
        EXPECT_TRUE(opened) << opened.error().text();
        return opened ? std::move(*opened) : nullptr;
    }

    // A stream and its other end, on which nothing has been read.
    std::pair<std::unique_ptr<Stream>, std::unique_ptr<Stream>> open_pair() {
        auto near = open(sink);
        EXPECT_TRUE(run_until([&] { return !taken_.empty(); }));
        auto far = std::move(taken_.back());
        taken_.pop_back();
        return {std::move(near), std::move(far)};
    }

    std::vector<std::unique_ptr<Stream>> taken_;
    Node& a_;
    Node& b_;
};

TEST_F(StreamTest, eight_megabytes_go_there_and_back_with_half_close) {
    auto const stream = open(echo);
    ASSERT_TRUE(stream);
    EXPECT_EQ(stream->peer(), b_.host.id());
    auto const sent = pattern(megabytes_8);
    auto both = [&]() -> asio::awaitable<Result<Bytes>> {
        using namespace asio::experimental::awaitable_operators;
        auto results = co_await (write_and_end(*stream, sent) && read_all(*stream));
        co_return std::get<1>(std::move(results));
    };
    auto const received = run(both(), 60s);
    ASSERT_TRUE(received) << received.error().text();
    EXPECT_TRUE(*received == sent); // Without printing 8 MiB.
}

TEST_F(StreamTest, both_directions_are_independent) {
    auto [near, far] = open_pair();
    ASSERT_TRUE(run(write_message(*near, as_bytes("one"))));
    near->close_write();
    EXPECT_EQ(as_text(run(read_message(*far, 100)).value()), "one");
    std::array<std::uint8_t, 1> byte{};
    EXPECT_EQ(run(far->read_some(byte)).value(), 0u); // The near side has ended.
    EXPECT_EQ(run(far->read_some(byte)).value(), 0u); // And stays so.
    ASSERT_TRUE(run(write_message(*far, as_bytes("two"))));
    EXPECT_EQ(as_text(run(read_message(*near, 100)).value()), "two");
    EXPECT_EQ(run(near->write(as_bytes("x"))).error().code(), Errc::invalid_argument);
}

TEST_F(StreamTest, a_reset_is_seen_by_the_peer) {
    auto [near, far] = open_pair();
    near->reset();
    std::array<std::uint8_t, 1> byte{};
    EXPECT_EQ(run(far->read_some(byte)).error().code(), Errc::cancelled);
    EXPECT_EQ(run(far->write(as_bytes("x"))).error().code(), Errc::cancelled);
    EXPECT_EQ(run(near->read_some(byte)).error().code(), Errc::io);
}

TEST_F(StreamTest, dropping_an_open_stream_resets_it) {
    auto [near, far] = open_pair();
    near.reset();
    std::array<std::uint8_t, 1> byte{};
    EXPECT_EQ(run(far->read_some(byte)).error().code(), Errc::cancelled);
}

TEST_F(StreamTest, dropping_a_closed_stream_keeps_what_was_written) {
    auto [near, far] = open_pair();
    ASSERT_TRUE(run(near->write(pattern(100'000))));
    near->close_write();
    near.reset();
    EXPECT_EQ(run(read_all(*far)).value(), pattern(100'000));
}

TEST_F(StreamTest, writing_to_who_has_closed_and_dropped_ends_in_a_reset) {
    auto [near, far] = open_pair();
    near->close_write();
    near.reset();
    EXPECT_EQ(run(read_all(*far)).value(), Bytes{});
    auto fill = [stream = far.get()]() -> asio::awaitable<Result<void>> {
        Bytes const piece(100'000, 0);
        while (true) {
            auto const written = co_await stream->write(piece);
            if (!written) {
                co_return written.error();
            }
        }
    };
    EXPECT_EQ(run(fill()).error().code(), Errc::cancelled);
}

// Back-pressure: a writer waits for its reader instead of filling memory.
TEST_F(StreamTest, a_writer_waits_for_its_reader) {
    auto [near, far] = open_pair();
    auto const sent = pattern(megabytes_8);
    bool written = false;
    asio::co_spawn(io_, near->write(sent), [&](std::exception_ptr, Result<void> result) {
        written = true;
        EXPECT_TRUE(result);
    });
    run_for(500ms);
    EXPECT_FALSE(written);
    auto read = [stream = far.get()]() -> asio::awaitable<Result<std::size_t>> {
        Bytes buffer(10'000);
        std::size_t total = 0;
        while (total < megabytes_8) {
            auto const count = co_await stream->read_some(buffer);
            if (!count) {
                co_return count.error();
            }
            total += *count;
        }
        co_return total;
    };
    EXPECT_EQ(run(read(), 60s).value(), megabytes_8);
    EXPECT_TRUE(run_until([&] { return written; }));
}

TEST_F(StreamTest, a_slow_stream_does_not_hold_up_another) {
    auto [near, far] = open_pair();
    auto const sent = pattern(megabytes_8);
    bool ended = false;
    asio::co_spawn(io_, near->write(sent), [&](std::exception_ptr, Result<void>) { ended = true; });
    run_for(200ms);
    auto const quick = open(echo);
    ASSERT_TRUE(run(write_message(*quick, as_bytes("hello"))));
    EXPECT_EQ(as_text(run(read_message(*quick, 100)).value()), "hello");
    EXPECT_FALSE(ended);
    far.reset();
    EXPECT_TRUE(run_until([&] { return ended; })); // The reset ends the waiting writer.
}

TEST_F(StreamTest, many_streams_at_once_keep_their_bytes_apart) {
    std::vector<std::unique_ptr<Stream>> streams;
    for (int i = 0; i < 50; ++i) {
        streams.push_back(open(echo));
        ASSERT_TRUE(run(write_message(*streams.back(), as_bytes("stream " + std::to_string(i)))));
    }
    for (int i = 0; i < 50; ++i) {
        auto const answer = run(read_message(*streams[static_cast<std::size_t>(i)], 100));
        EXPECT_EQ(as_text(answer.value()), "stream " + std::to_string(i));
    }
}

TEST_F(StreamTest, a_message_over_the_limit_and_a_cut_one_are_errors) {
    auto [near, far] = open_pair();
    ASSERT_TRUE(run(write_message(*near, Bytes(101, 0))));
    EXPECT_EQ(run(read_message(*far, 100)).error().code(), Errc::limit);
    auto [other, other_far] = open_pair();
    ASSERT_TRUE(run(other->write(Bytes{5, 'a', 'b'})));
    other->close_write();
    EXPECT_EQ(run(read_message(*other_far, 100)).error().code(), Errc::io);
}

TEST_F(StreamTest, an_unknown_protocol_and_an_unknown_peer_are_refused) {
    auto const refused = run(a_.host.open_stream(b_.host.id(), "/exo/none/1.0.0"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::protocol);
    auto const nobody = run(a_.host.open_stream(options_of(9).identity.peer_id(), echo));
    ASSERT_FALSE(nobody);
    EXPECT_EQ(nobody.error().code(), Errc::unavailable);
    EXPECT_TRUE(run_until([&] { return b_.host.counters().streams_refused == 1; }));
}

TEST_F(StreamTest, streams_end_with_their_connection) {
    auto [near, far] = open_pair();
    a_.host.disconnect(b_.host.id());
    std::array<std::uint8_t, 1> byte{};
    EXPECT_EQ(run(near->read_some(byte)).error().code(), Errc::io);
    EXPECT_EQ(run(far->read_some(byte)).error().code(), Errc::io);
    EXPECT_EQ(run(far->write(as_bytes("x"))).error().code(), Errc::io);
}

TEST_F(StreamTest, stopping_while_busy_is_quick) {
    auto const stream = open(echo);
    auto const sent = pattern(megabytes_8);
    bool ended = false;
    asio::co_spawn(io_, stream->write(sent), [&](std::exception_ptr, Result<void> result) {
        ended = true;
        EXPECT_FALSE(result);
    });
    run_for(50ms);
    EXPECT_TRUE(stop(b_));
    EXPECT_TRUE(run_until([&] { return ended; }));
    EXPECT_TRUE(stop(a_));
}

} // namespace
} // namespace exo::net::test
