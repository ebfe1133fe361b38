// SPDX-License-Identifier: Apache-2.0
//
// The rules of a yamux session one by one: openings, ends, limits, pings, and what ends it. Windows
// have their own file.
#include "yamux_fixture.hpp"

namespace exo::net::yamux {
namespace {

TEST(YamuxOpen, a_dialer_counts_odd_ids_and_a_listener_even_ones) {
    auto dialer = quiet_session(Side::dialer);
    EXPECT_EQ(dialer.open_stream().value(), StreamId(1));
    EXPECT_EQ(dialer.open_stream().value(), StreamId(3));
    EXPECT_EQ(
        dialer.take_output(),
        joined(
            {frame(FrameType::window_update, flag::syn, 1, 0),
             frame(FrameType::window_update, flag::syn, 3, 0)}
        )
    );
    auto listener = quiet_session(Side::listener);
    EXPECT_EQ(listener.open_stream().value(), StreamId(2));
}

TEST(YamuxOpen, data_may_follow_before_the_acknowledgement) {
    auto session = quiet_session(Side::dialer);
    auto const stream = session.open_stream().value();
    EXPECT_EQ(session.send(stream, as_bytes("hello")), 5U);
    EXPECT_EQ(
        session.take_output(),
        joined(
            {frame(FrameType::window_update, flag::syn, 1, 0), data_frame(0, 1, as_bytes("hello"))}
        )
    );
}

TEST(YamuxOpen, unacknowledged_streams_are_limited_until_the_peer_answers) {
    auto session = quiet_session(Side::dialer, {.unacknowledged_max = 2});
    ASSERT_TRUE(session.open_stream());
    ASSERT_TRUE(session.open_stream());
    EXPECT_EQ(session.open_stream().error().code(), Errc::unavailable);
    ASSERT_TRUE(session.receive(data_frame(flag::ack, 3, as_bytes("x")), start));
    EXPECT_TRUE(session.open_stream());
    // A second ACK of the same stream gives no further room.
    ASSERT_TRUE(session.receive(frame(FrameType::window_update, flag::ack, 3, 0), start));
    EXPECT_FALSE(session.open_stream());
    session.reset(StreamId(1));
    EXPECT_TRUE(session.open_stream());
}

TEST(YamuxOpen, streams_of_both_sides_count_towards_the_limit) {
    auto session = quiet_session(Side::dialer, {.streams_max = 2});
    ASSERT_TRUE(session.receive(frame(FrameType::data, flag::syn, 2, 0), start));
    ASSERT_TRUE(session.open_stream());
    EXPECT_EQ(session.open_stream().error().code(), Errc::limit);
    (void)session.take_output();
    (void)events_of(session);
    ASSERT_TRUE(session.receive(data_frame(flag::syn, 4, as_bytes("no room")), start));
    EXPECT_TRUE(events_of(session).empty());
    EXPECT_EQ(session.take_output(), frame(FrameType::data, flag::rst, 4, 0));
}

// rust opens 256 streams ahead of our acknowledgements and then stalls.
TEST(YamuxOpen, every_accepted_stream_is_acknowledged_at_once) {
    auto session = quiet_session(Side::listener);
    for (std::uint32_t id = 1; id < 2 * Limits().streams_max; id += 2) {
        ASSERT_TRUE(session.receive(data_frame(flag::syn, id, as_bytes("x")), start));
        ASSERT_EQ(session.take_output(), frame(FrameType::window_update, flag::ack, id, 0));
    }
}

// Each set of flags, on data and on window updates, for a new stream and for a known one.
TEST(YamuxOpen, flags_come_in_any_combination) {
    for (auto const type : {FrameType::data, FrameType::window_update}) {
        for (std::uint16_t flags = 0; flags < 16; ++flags) {
            bool const opens = (flags & flag::syn) != 0;
            bool const resets = (flags & flag::rst) != 0;
            bool const ends = (flags & flag::fin) != 0;
            Accepted it;
            StreamId const stream(opens ? 3 : 1);
            ASSERT_TRUE(it.session.receive(frame(type, flags, stream.value(), 0), start));
            std::vector<Event> expected;
            if (opens && !resets) {
                expected.emplace_back(StreamOpened{stream});
            }
            if (resets ? !opens : ends) {
                expected.emplace_back(StreamEnded{stream, resets});
            }
            EXPECT_EQ(events_of(it.session), expected) << "flags " << flags;
            EXPECT_EQ(it.session.is_alive(stream), !resets) << "flags " << flags;
        }
    }
}

// They cross with ends: rust and js ignore them too.
TEST(YamuxOpen, frames_of_unknown_streams_are_ignored) {
    auto session = quiet_session(Side::listener);
    for (std::uint32_t const id : {1U, 2U}) {
        ASSERT_TRUE(session.receive(data_frame(0, id, as_bytes("late")), start));
        for (std::uint16_t flags = 0; flags < 16; flags += 2) { // All but SYN.
            ASSERT_TRUE(session.receive(frame(FrameType::window_update, flags, id, 524306), start));
            ASSERT_TRUE(session.receive(frame(FrameType::data, flags, id, 0), start));
        }
    }
    EXPECT_TRUE(events_of(session).empty());
    EXPECT_FALSE(session.has_output());
}

TEST(YamuxOpen, an_id_of_our_parity_ends_the_connection) {
    auto session = quiet_session(Side::dialer);
    expect_fatal(session, frame(FrameType::data, flag::syn, 1, 0), Errc::protocol, 1);
}

TEST(YamuxOpen, an_id_in_use_ends_the_connection) {
    Accepted it;
    expect_fatal(it.session, frame(FrameType::data, flag::syn, 1, 0), Errc::protocol, 1);
}

TEST(YamuxOpen, the_stream_zero_ends_the_connection) {
    auto session = quiet_session(Side::dialer);
    expect_fatal(session, frame(FrameType::window_update, flag::syn, 0, 0), Errc::protocol, 1);
}

TEST(YamuxOutput, is_bounded_and_shared_and_nobody_starves) {
    Limits const limits{.output_bytes_max = 4000, .output_share_max = 1000};
    auto session = quiet_session(Side::dialer, limits);
    std::map<StreamId, std::size_t> sent;
    for (int i = 0; i < 9; ++i) {
        sent[session.open_stream().value()] = 0;
    }
    (void)session.take_output();
    Bytes const much(100'000, 7);
    for (auto& [stream, count] : sent) {
        count += session.send(stream, much);
    }
    for (int round = 0; round < 20; ++round) {
        EXPECT_LT(session.take_output().size(), 4200U);
        for (auto const& event : events_of(session)) {
            auto const stream = std::get<StreamWritable>(event).stream;
            sent[stream] += session.send(stream, much);
        }
    }
    for (auto const& [stream, count] : sent) {
        EXPECT_GE(count, 5'000U) << "stream " << stream.value();
        EXPECT_LE(count, 12'000U) << "stream " << stream.value();
    }
}

TEST(YamuxEnd, both_halves_end_before_the_stream_is_forgotten) {
    Accepted it;
    it.session.close_write(it.stream);
    it.session.close_write(it.stream); // Idempotent.
    EXPECT_EQ(it.session.take_output(), frame(FrameType::data, flag::fin, 1, 0));
    EXPECT_EQ(it.session.send(it.stream, as_bytes("late")), 0U);
    EXPECT_TRUE(it.session.is_alive(it.stream));
    auto const last = data_frame(flag::fin, 1, as_bytes("bye"));
    ASSERT_TRUE(it.session.receive(last, start));
    std::vector<Event> const expected{
        DataReceived{it.stream, hex("627965")}, StreamEnded{it.stream, false}
    };
    EXPECT_EQ(events_of(it.session), expected);
    EXPECT_TRUE(it.session.is_alive(it.stream)); // Its bytes are not read yet.
    it.session.release(it.stream, 3, start);
    EXPECT_FALSE(it.session.is_alive(it.stream));
    EXPECT_EQ(it.session.stream_count(), 0U);
}

TEST(YamuxEnd, a_window_update_may_end_a_stream_and_a_second_end_is_ignored) {
    Accepted it;
    auto const fin = frame(FrameType::window_update, flag::fin, 1, 0);
    ASSERT_TRUE(it.session.receive(joined({fin, fin}), start));
    EXPECT_EQ(events_of(it.session), (std::vector<Event>{StreamEnded{it.stream, false}}));
    EXPECT_EQ(it.session.send(it.stream, as_bytes("still")), 5U);
}

TEST(YamuxEnd, data_behind_the_end_resets_the_stream_only) {
    Accepted it;
    ASSERT_TRUE(it.session.receive(frame(FrameType::data, flag::fin, 1, 0), start));
    (void)events_of(it.session);
    ASSERT_TRUE(it.session.receive(data_frame(0, 1, as_bytes("late")), start));
    EXPECT_EQ(events_of(it.session), (std::vector<Event>{StreamEnded{it.stream, true}}));
    EXPECT_EQ(it.session.take_output(), frame(FrameType::data, flag::rst, 1, 0));
}

TEST(YamuxEnd, a_reset_by_the_peer_ends_both_directions) {
    Accepted it;
    // The length is an error code of go's and no credit.
    auto const reset = frame(FrameType::window_update, flag::rst, 1, 0xffffffff);
    ASSERT_TRUE(it.session.receive(reset, start));
    EXPECT_EQ(events_of(it.session), (std::vector<Event>{StreamEnded{it.stream, true}}));
    EXPECT_EQ(it.session.send(it.stream, as_bytes("x")), 0U);
    EXPECT_EQ(it.session.stream_count(), 0U);
}

TEST(YamuxEnd, after_our_reset_nothing_more_of_the_stream_is_heard) {
    Accepted it;
    auto const part = data_frame(0, 1, as_bytes("hello"));
    ASSERT_TRUE(it.session.receive(BytesView(part).first(14), start));
    it.session.reset(it.stream);
    it.session.reset(it.stream);
    ASSERT_TRUE(it.session.receive(BytesView(part).subspan(14), start));
    ASSERT_TRUE(it.session.receive(frame(FrameType::window_update, flag::fin, 1, 5), start));
    EXPECT_TRUE(events_of(it.session).empty());
    EXPECT_EQ(it.session.take_output(), frame(FrameType::data, flag::rst, 1, 0));
}

TEST(YamuxEnd, an_ended_id_may_come_again) {
    Accepted it;
    it.session.reset(it.stream);
    ASSERT_TRUE(it.session.receive(frame(FrameType::data, flag::syn, 1, 0), start));
    EXPECT_EQ(events_of(it.session), std::vector<Event>{StreamOpened{it.stream}});
}

TEST(YamuxAbandon, ends_quietly_with_the_peers_side_and_keeps_what_was_sent) {
    for (auto const flags : {flag::fin, flag::rst}) {
        Accepted it;
        EXPECT_EQ(it.session.send(it.stream, as_bytes("answer")), 6U);
        it.session.close_write(it.stream);
        it.session.abandon(it.stream);
        it.session.abandon(it.stream);
        EXPECT_EQ(
            it.session.take_output(),
            joined({data_frame(0, 1, as_bytes("answer")), frame(FrameType::data, flag::fin, 1, 0)})
        );
        ASSERT_TRUE(it.session.receive(frame(FrameType::data, flags, 1, 0), start));
        EXPECT_TRUE(events_of(it.session).empty());
        EXPECT_EQ(it.session.stream_count(), 0U);
        EXPECT_FALSE(it.session.has_output());
    }
}

TEST(YamuxAbandon, what_has_come_is_forgotten_and_what_still_comes_resets) {
    Accepted it;
    auto const part = data_frame(0, 1, as_bytes("hello"));
    ASSERT_TRUE(it.session.receive(BytesView(part).first(14), start)); // Two bytes of five.
    it.session.close_write(it.stream);
    it.session.abandon(it.stream);
    (void)it.session.take_output();
    EXPECT_EQ(it.session.unread_bytes(), 0U);
    EXPECT_TRUE(it.session.is_alive(it.stream));
    ASSERT_TRUE(it.session.receive(BytesView(part).subspan(14), start));
    EXPECT_TRUE(events_of(it.session).empty());
    EXPECT_EQ(it.session.take_output(), frame(FrameType::data, flag::rst, 1, 0));
    EXPECT_EQ(it.session.stream_count(), 0U);
}

TEST(YamuxAbandon, one_that_the_peer_never_ends_makes_room_for_another) {
    Accepted it({.streams_max = 1});
    EXPECT_EQ(it.session.open_stream().error().code(), Errc::limit);
    it.session.close_write(it.stream);
    it.session.abandon(it.stream);
    (void)it.session.take_output();
    EXPECT_EQ(it.session.open_stream().value(), StreamId(2));
    EXPECT_FALSE(it.session.is_alive(it.stream));
    EXPECT_EQ(
        it.session.take_output(),
        joined(
            {frame(FrameType::data, flag::rst, 1, 0),
             frame(FrameType::window_update, flag::syn, 2, 0)}
        )
    );
}

TEST(YamuxPing, is_answered_with_its_value) {
    auto session = quiet_session(Side::listener);
    ASSERT_TRUE(session.receive(hex("00020001000000007d60f881"), start));
    EXPECT_EQ(session.take_output(), hex("00020002000000007d60f881"));
}

TEST(YamuxPing, goes_out_every_10_seconds_and_measures_the_round_trip) {
    auto session = quiet_session(Side::dialer);
    EXPECT_EQ(session.round_trip(), std::nullopt);
    ASSERT_TRUE(session.receive(our_ping_answered, start + 3ms));
    EXPECT_EQ(session.round_trip(), 3ms);
    EXPECT_EQ(session.deadline(), start + 10s);
    ASSERT_TRUE(session.on_time(start + 9s));
    EXPECT_FALSE(session.has_output());
    ASSERT_TRUE(session.on_time(start + 10s));
    EXPECT_EQ(session.take_output(), frame(FrameType::ping, flag::syn, 0, 2));
}

TEST(YamuxPing, without_an_answer_in_30_seconds_the_connection_is_dead) {
    auto session = quiet_session(Side::dialer);
    EXPECT_EQ(session.deadline(), start + 30s);
    ASSERT_TRUE(session.on_time(start + 29s));
    auto const result = session.on_time(start + 30s);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::timed_out);
    EXPECT_EQ(session.on_time(start + 31s).error(), result.error());
}

TEST(YamuxPing, an_answer_nobody_asked_for_ends_the_connection) {
    auto session = quiet_session(Side::dialer);
    expect_fatal(session, frame(FrameType::ping, flag::ack, 0, 2), Errc::protocol, 1);
    auto other = quiet_session(Side::dialer);
    ASSERT_TRUE(other.receive(our_ping_answered, start));
    expect_fatal(other, our_ping_answered, Errc::protocol, 1);
}

TEST(YamuxPing, a_flood_of_questions_without_reading_is_cut_off) {
    auto session =
        quiet_session(Side::listener, {.output_bytes_max = 100, .control_bytes_max = 20});
    auto const ping = frame(FrameType::ping, flag::syn, 0, 9);
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(session.receive(ping, start));
    }
    expect_fatal(session, ping, Errc::limit, 2);
}

TEST(YamuxGoAway, of_the_peer_stops_new_streams_but_not_the_others) {
    Accepted it;
    auto const leave = frame(FrameType::go_away, 0, 0, 0);
    ASSERT_TRUE(it.session.receive(joined({leave, leave}), start));
    EXPECT_EQ(events_of(it.session), std::vector<Event>{GoAwayReceived{0}});
    EXPECT_EQ(it.session.open_stream().error().code(), Errc::unavailable);
    EXPECT_EQ(it.session.send(it.stream, as_bytes("x")), 1U);
}

TEST(YamuxGoAway, of_ours_is_sent_once_and_refuses_new_streams) {
    Accepted it;
    it.session.go_away(go_away_normal);
    it.session.go_away(go_away_normal);
    EXPECT_EQ(it.session.take_output(), hex("000300000000000000000000"));
    ASSERT_TRUE(it.session.receive(frame(FrameType::data, flag::syn, 3, 0), start));
    EXPECT_TRUE(events_of(it.session).empty());
    EXPECT_EQ(it.session.take_output(), frame(FrameType::data, flag::rst, 3, 0));
    EXPECT_FALSE(it.session.open_stream());
}

TEST(YamuxGarbage, of_version_or_type_ends_the_connection) {
    auto session = quiet_session(Side::listener);
    expect_fatal(session, hex("010000000000000100000000"), Errc::protocol, 1);
    auto other = quiet_session(Side::listener);
    expect_fatal(other, hex("000900000000000100000000"), Errc::protocol, 1);
}

} // namespace
} // namespace exo::net::yamux
