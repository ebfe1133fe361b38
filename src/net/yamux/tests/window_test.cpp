// SPDX-License-Identifier: Apache-2.0
//
// The windows of yamux: what may be sent, what credit comes back and when, how far receive windows
// grow, and what a peer can make a session hold.
#include "yamux_fixture.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace exo::net::yamux {
namespace {

constexpr std::uint32_t half = initial_window_bytes / 2;
constexpr Duration round_trip = 10ms;

// Too late for a window to grow: nothing is in a hurry.
constexpr TimePoint later = start + 1h;

TEST(YamuxWindow, sends_at_most_the_window_and_goes_on_with_credit) {
    Accepted it;
    Bytes const much(initial_window_bytes + 10'000, 7);
    std::size_t sent = 0;
    while (auto const taken = it.session.send(it.stream, BytesView(much).subspan(sent))) {
        sent += taken;
        (void)it.session.take_output();
    }
    EXPECT_EQ(sent, initial_window_bytes);
    (void)events_of(it.session);
    ASSERT_TRUE(it.session.receive(frame(FrameType::window_update, 0, 1, 9'999), start));
    EXPECT_EQ(events_of(it.session), std::vector<Event>{StreamWritable{it.stream}});
    EXPECT_EQ(it.session.send(it.stream, BytesView(much).subspan(sent)), 9'999U);
}

TEST(YamuxWindow, credit_of_the_opening_frame_adds_to_the_initial_window) {
    auto session = quiet_session(Side::listener, {.output_share_max = 1 << 20});
    ASSERT_TRUE(session.receive(frame(FrameType::window_update, flag::syn, 1, 1000), start));
    (void)session.take_output();
    Bytes const much(initial_window_bytes + 2000, 7);
    auto const first = session.send(StreamId(1), much);
    (void)session.take_output();
    auto const second = session.send(StreamId(1), BytesView(much).subspan(first));
    EXPECT_EQ(first + second, initial_window_bytes + 1000U);
}

TEST(YamuxWindow, large_credit_is_fine_but_not_over_32_bits) {
    Accepted it;
    auto const most = std::numeric_limits<std::uint32_t>::max() - initial_window_bytes;
    ASSERT_TRUE(it.session.receive(frame(FrameType::window_update, 0, 1, most), start));
    expect_fatal(it.session, frame(FrameType::window_update, 0, 1, 1), Errc::protocol, 1);
}

TEST(YamuxWindow, data_goes_out_in_frames_of_at_most_16_kib) {
    Accepted it;
    Bytes const body(40'000, 7);
    EXPECT_EQ(it.session.send(it.stream, body), body.size());
    EXPECT_EQ(
        it.session.take_output(),
        joined(
            {data_frame(0, 1, BytesView(body).first(16'384)),
             data_frame(0, 1, BytesView(body).first(16'384)),
             data_frame(0, 1, BytesView(body).first(7'232))}
        )
    );
}

TEST(YamuxWindow, more_than_granted_ends_the_connection) {
    Accepted it;
    auto const exact = data_frame(0, 1, Bytes(initial_window_bytes, 7));
    ASSERT_TRUE(it.session.receive(exact, start));
    expect_fatal(it.session, data_frame(0, 1, as_bytes("x")), Errc::protocol, 1);
}

TEST(YamuxWindow, a_body_larger_than_any_window_ends_the_connection_at_its_header) {
    auto session = quiet_session(Side::listener);
    auto const header =
        frame(FrameType::data, 0, 9, initial_window_bytes + 1); // Of an unknown stream.
    expect_fatal(session, header, Errc::protocol, 1);
}

TEST(YamuxWindow, credit_comes_back_when_half_a_window_was_read) {
    Accepted it;
    ASSERT_TRUE(it.session.receive(data_frame(0, 1, Bytes(initial_window_bytes, 7)), start));
    it.session.release(it.stream, initial_window_bytes / 2 - 1, later);
    EXPECT_FALSE(it.session.has_output());
    it.session.release(it.stream, 1, later);
    EXPECT_EQ(it.session.take_output(), frame(FrameType::window_update, 0, 1, half));
    ASSERT_TRUE(it.session.receive(data_frame(0, 1, Bytes(half, 7)), start));
    expect_fatal(it.session, data_frame(0, 1, as_bytes("x")), Errc::protocol, 1);
}

TEST(YamuxWindow, a_stream_that_the_peer_has_ended_gets_no_more_credit) {
    Accepted it;
    ASSERT_TRUE(it.session.receive(data_frame(flag::fin, 1, Bytes(initial_window_bytes, 7)), start)
    );
    it.session.release(it.stream, initial_window_bytes, later);
    EXPECT_FALSE(it.session.has_output());
    it.session.close_write(it.stream);
    it.session.release(it.stream, 1, later); // The stream is gone: nothing happens.
}

// A stream of a session that knows its round trip.
struct Measured : Accepted {
    explicit Measured(Limits limits = {})
        : Accepted(limits) {
        EXPECT_TRUE(session.receive(our_ping_answered, start + round_trip));
    }

    void open(std::uint32_t id) {
        EXPECT_TRUE(session.receive(frame(FrameType::window_update, flag::syn, id, 0), start));
        (void)session.take_output();
        (void)events_of(session);
    }

    // The peer sends `bytes_count` and the application reads them at `now`. Returns the credit.
    std::uint32_t read(std::uint32_t id, std::uint32_t bytes_count, TimePoint now) {
        EXPECT_TRUE(session.receive(data_frame(0, id, Bytes(bytes_count, 7)), start));
        (void)events_of(session);
        session.release(StreamId(id), bytes_count, now);
        auto const output = session.take_output();
        return output.empty() ? 0 : parse_header(output).value().length;
    }
};

TEST(YamuxGrowth, a_window_half_read_within_two_round_trips_doubles) {
    Measured it;
    EXPECT_EQ(it.read(1, half, start + 2 * round_trip), half + initial_window_bytes);
    // All of it in one frame, as js sends.
    EXPECT_EQ(it.read(1, 2 * initial_window_bytes, later), 2 * initial_window_bytes);
    ASSERT_TRUE(it.session.receive(data_frame(0, 1, Bytes(2 * initial_window_bytes, 7)), start));
    expect_fatal(it.session, data_frame(0, 1, as_bytes("x")), Errc::protocol, 1);
}

TEST(YamuxGrowth, a_window_read_more_slowly_stays_as_it_is) {
    Measured it;
    EXPECT_EQ(it.read(1, half, start + 2 * round_trip + 1ns), half);
    // The time counts from the last credit.
    EXPECT_EQ(it.read(1, half, start + 4 * round_trip + 1ns), half + initial_window_bytes);
}

TEST(YamuxGrowth, without_a_measured_round_trip_nothing_grows) {
    Accepted it;
    ASSERT_TRUE(it.session.receive(data_frame(0, 1, Bytes(half, 7)), start));
    it.session.release(it.stream, half, start);
    EXPECT_EQ(it.session.take_output(), frame(FrameType::window_update, 0, 1, half));
}

TEST(YamuxGrowth, the_shortest_round_trip_counts) {
    Measured it;
    ASSERT_TRUE(it.session.on_time(start + 10s));
    (void)it.session.take_output();
    auto const slow_answer = frame(FrameType::ping, flag::ack, 0, 2);
    ASSERT_TRUE(it.session.receive(slow_answer, start + 12s));
    EXPECT_EQ(it.session.round_trip(), round_trip);
}

// A round trip of microseconds, as on loopback, is not what a busy thread needs to answer.
TEST(YamuxGrowth, a_round_trip_counts_as_one_millisecond_at_least) {
    Accepted it;
    ASSERT_TRUE(it.session.receive(our_ping_answered, start + 10us));
    ASSERT_TRUE(it.session.receive(data_frame(0, 1, Bytes(half, 7)), start));
    it.session.release(it.stream, half, start + 2ms);
    auto const credit = half + initial_window_bytes;
    EXPECT_EQ(it.session.take_output(), frame(FrameType::window_update, 0, 1, credit));
}

TEST(YamuxGrowth, one_stream_grows_to_its_limit_and_no_further) {
    Measured it({.window_bytes_max = 5 * half});
    EXPECT_EQ(it.read(1, half, start), half + initial_window_bytes);
    EXPECT_EQ(it.read(1, initial_window_bytes, start), initial_window_bytes + half);
    EXPECT_EQ(it.read(1, 5 * half / 2, start), 5 * half / 2);
}

TEST(YamuxGrowth, all_streams_together_grow_to_their_limit_and_an_end_makes_room) {
    Measured it({.growth_bytes_max = initial_window_bytes + 1000});
    it.open(3);
    EXPECT_EQ(it.read(1, half, start), half + initial_window_bytes);
    EXPECT_EQ(it.read(3, half, start), half + 1000);
    EXPECT_EQ(it.read(3, half + 500, start), half + 500);
    it.session.reset(it.stream);
    (void)it.session.take_output();
    EXPECT_EQ(it.read(3, half + 500, start), half + 500 + initial_window_bytes);
}

// The link moves 4 MiB in a round trip. Each turn of the loop is one: what the window allows goes,
// is read, and the credit comes back.
TEST(YamuxGrowth, a_stream_over_a_long_link_soon_gets_all_of_it) {
    Measured it;
    constexpr std::uint32_t link_bytes = 4 * 1024 * 1024;
    std::uint32_t credit = initial_window_bytes;
    std::vector<std::uint32_t> moved;
    for (TimePoint now = start; moved.size() < 12; now += round_trip) {
        auto const sent = std::min(credit, link_bytes);
        credit += it.read(1, sent, now + round_trip) - sent;
        moved.push_back(sent);
    }
    EXPECT_EQ(moved.front(), initial_window_bytes);
    EXPECT_EQ(moved[5], link_bytes);
    EXPECT_EQ(moved.back(), link_bytes);
    EXPECT_LE(credit, Limits().window_bytes_max);
}

// Two streams grow, then nobody reads: the peer fills all windows of all streams that it can open,
// and what that makes is the limit, to the byte.
TEST(YamuxMemory, what_a_peer_can_make_us_hold_is_the_stated_limit) {
    Limits const limits{
        .streams_max = 4, .window_bytes_max = 4 * initial_window_bytes, .growth_bytes_max = 900'000
    };
    Measured it(limits);
    std::map<std::uint32_t, std::uint32_t> credit{{1, initial_window_bytes}};
    for (std::uint32_t const id : {3U, 5U, 7U}) {
        it.open(id);
        credit[id] = initial_window_bytes;
    }
    for (int i = 0; i < 10; ++i) {
        for (auto& [id, left] : credit) {
            auto const sent = left;
            left += it.read(id, sent, start) - sent;
        }
    }
    std::uint64_t held = 0;
    for (auto const& [id, left] : credit) {
        ASSERT_TRUE(it.session.receive(data_frame(flag::fin, id, Bytes(left, 7)), start));
        it.session.close_write(StreamId(id));
    }
    for (auto const& event : events_of(it.session)) {
        auto const* const data = std::get_if<DataReceived>(&event);
        held += data != nullptr ? data->bytes.size() : 0;
    }
    EXPECT_EQ(held, limits.unread_bytes_max());
    EXPECT_EQ(it.session.unread_bytes(), held);
    // The streams have ended both ways, but their bytes are still here: no other takes their place.
    (void)it.session.take_output();
    ASSERT_TRUE(it.session.receive(frame(FrameType::data, flag::syn, 9, 0), start));
    EXPECT_EQ(it.session.take_output(), frame(FrameType::data, flag::rst, 9, 0));
    it.session.release(StreamId(7), credit.at(7), start);
    EXPECT_FALSE(it.session.is_alive(StreamId(7)));
    ASSERT_TRUE(it.session.receive(frame(FrameType::data, flag::syn, 9, 0), start));
    EXPECT_EQ(it.session.take_output(), frame(FrameType::window_update, flag::ack, 9, 0));
}

// js sends frames as large as the window it was granted; this one's stream has just ended here.
TEST(YamuxMemory, a_frame_as_large_as_the_largest_window_is_skipped_without_being_kept) {
    Measured it;
    EXPECT_EQ(it.read(1, half, start), half + initial_window_bytes);
    it.session.reset(it.stream);
    (void)it.session.take_output();
    auto const late = data_frame(0, 1, Bytes(2 * initial_window_bytes, 7));
    ASSERT_TRUE(it.session.receive(late, start));
    EXPECT_TRUE(events_of(it.session).empty());
    EXPECT_EQ(it.session.unread_bytes(), 0U);
    auto const larger = frame(FrameType::data, 0, 1, 2 * initial_window_bytes + 1);
    expect_fatal(it.session, larger, Errc::protocol, 1);
}

} // namespace
} // namespace exo::net::yamux
