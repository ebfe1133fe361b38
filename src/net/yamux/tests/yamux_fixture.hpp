// SPDX-License-Identifier: Apache-2.0
//
// What the tests of yamux share: hex, readable frames, and taking all that a session has made.
#pragma once

#include "net/yamux/session.hpp"

#include <gtest/gtest.h>

#include <span>
#include <string_view>

namespace exo::net::yamux {

constexpr TimePoint start{};

inline Bytes hex(std::string_view text) {
    return from_hex(text).value();
}

inline Bytes
frame(FrameType type, std::uint16_t flags, std::uint32_t stream, std::uint32_t length) {
    Bytes bytes;
    append_header(bytes, {.type = type, .flags = flags, .stream = stream, .length = length});
    return bytes;
}

inline Bytes data_frame(std::uint16_t flags, std::uint32_t stream, BytesView body) {
    auto bytes = frame(FrameType::data, flags, stream, static_cast<std::uint32_t>(body.size()));
    append(bytes, body);
    return bytes;
}

inline Bytes joined(std::initializer_list<Bytes> parts) {
    Bytes all;
    for (auto const& part : parts) {
        append(all, part);
    }
    return all;
}

// Neighbouring data of one stream counts as one event: how it is cut says nothing.
inline void append_event(std::vector<Event>& to, Event event) {
    auto* const last = to.empty() ? nullptr : std::get_if<DataReceived>(&to.back());
    auto* const data = std::get_if<DataReceived>(&event);
    if (last && data && last->stream == data->stream) {
        append(last->bytes, data->bytes);
    } else {
        to.push_back(std::move(event));
    }
}

inline std::vector<Event> events_of(Session& session) {
    std::vector<Event> events;
    while (auto event = session.next_event()) {
        append_event(events, std::move(*event));
    }
    return events;
}

// Without the ping that every session starts with.
inline Session quiet_session(Side side, Limits limits = {}) {
    Session session(side, start, limits);
    EXPECT_EQ(session.take_output(), hex("00020001 00000000 00000001"));
    return session;
}

inline auto const our_ping_answered = frame(FrameType::ping, flag::ack, 0, 1);

// A session and one stream that the peer has opened, with nothing waiting.
struct Accepted {
    Session session;
    StreamId stream{1};

    explicit Accepted(Limits limits = {})
        : session(quiet_session(Side::listener, limits)) {
        EXPECT_TRUE(session.receive(frame(FrameType::window_update, flag::syn, 1, 0), start));
        EXPECT_EQ(events_of(session), std::vector<Event>{StreamOpened{stream}});
        EXPECT_EQ(session.take_output(), frame(FrameType::window_update, flag::ack, 1, 0));
    }
};

// The session ends with an error and tells the peer which kind.
inline void expect_fatal(Session& session, BytesView bytes, Errc code, std::uint32_t go_away_code) {
    auto const result = session.receive(bytes, start);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), code) << result.error().text();
    auto const output = session.take_output();
    auto const last = frame(FrameType::go_away, 0, 0, go_away_code);
    ASSERT_GE(output.size(), last.size());
    EXPECT_TRUE(std::equal(last.begin(), last.end(), output.end() - header_bytes));
    EXPECT_EQ(session.receive(our_ping_answered, start).error(), result.error());
    EXPECT_FALSE(session.open_stream());
    EXPECT_EQ(session.deadline(), TimePoint::max());
}

} // namespace exo::net::yamux
