// SPDX-License-Identifier: Apache-2.0
//
// One yamux connection (`/yamux/1.0.0`, specs/libp2p.md 6), without I/O: bytes in, events and bytes
// out, time as a parameter. Works with rust's, js's and go's habits.
//
// The driver (host::Connection) moves bytes. After each call of receive(), take_output() and
// on_time() it takes all events; after each call of anything it takes the output when there is
// some. Not thread-safe: it lives on the network thread.
//
// Back-pressure: the peer gets new credit only for what the application has read. A receive window
// starts at 256 KiB and doubles whenever half of it was read within two round trips, for then it is
// the window that holds the peer up; Limits bound each window and their sum.
//
// Invariants: a stream is known exactly until both directions have ended and all its bytes were
// read, or one side reset it; so the peer can make us hold Limits::unread_bytes_max() and no more.
// Unsent output never exceeds Limits::output_bytes_max + Limits::control_bytes_max by more than one
// call's frames. No sum of windows can overflow (64-bit arithmetic, checked against 32 bits).
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "net/yamux/frame.hpp"
#include "net/yamux/limits.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>

namespace exo::net::yamux {

enum class Side { dialer, listener }; // The connection's dialer uses odd stream ids.

using StreamId = Strong<std::uint32_t, struct StreamIdTag>;

// The peer has opened a stream. It is acknowledged already; refuse it with reset().
struct StreamOpened {
    StreamId stream;
    bool operator==(StreamOpened const&) const = default;
};

// Never empty. Give the credit back with release() once the application has read them.
struct DataReceived {
    StreamId stream;
    Bytes bytes;
    bool operator==(DataReceived const&) const = default;
};

// reset == false: the peer will send no more, and we still may. reset == true: the stream is gone
// in both directions, and this is its last event.
struct StreamEnded {
    StreamId stream;
    bool reset = false;
    bool operator==(StreamEnded const&) const = default;
};

// send() took less than it was offered; now it would take something.
struct StreamWritable {
    StreamId stream;
    bool operator==(StreamWritable const&) const = default;
};

// The peer is leaving (0: normally): no more streams can be opened. It usually closes next.
struct GoAwayReceived {
    std::uint32_t code = 0;
    bool operator==(GoAwayReceived const&) const = default;
};

using Event = std::variant<StreamOpened, DataReceived, StreamEnded, StreamWritable, GoAwayReceived>;

// Codes of a go-away frame.
constexpr std::uint32_t go_away_normal = 0;
constexpr std::uint32_t go_away_protocol_error = 1;
constexpr std::uint32_t go_away_internal_error = 2;

class Session {
public:
    // The first ping goes out at once, as rust's does.
    Session(Side side, TimePoint now, Limits limits = {});

    // Takes the next bytes of the connection, cut anywhere. An error is final (protocol, or limit
    // for a flood): write out what output there is (it ends with a go-away) and close.
    [[nodiscard]] Result<void> receive(BytesView bytes, TimePoint now);

    [[nodiscard]] std::optional<Event> next_event();

    // A new stream; data may be sent at once. Errors: unavailable (the peer is leaving, or has not
    // acknowledged enough of our streams), limit (too many streams).
    [[nodiscard]] Result<StreamId> open_stream();

    // Queues a prefix of `bytes` and returns its length: less than all when the peer's window or
    // our output is full; StreamWritable then says when to go on. 0 for a stream that is gone or
    // whose writing side was closed.
    [[nodiscard]] std::size_t send(StreamId stream, BytesView bytes);

    // The application is done with `bytes_count` of the bytes received: the peer may send as many
    // again. Nothing happens for a stream that is gone.
    void release(StreamId stream, std::size_t bytes_count, TimePoint now);

    // We send no more. The stream lives on until the peer has ended its side too.
    void close_write(StreamId stream);

    // Nobody reads it any more either, nor what has come already: no further event of this stream
    // follows. It lives on for what we have sent; data that still comes resets it. A stream whose
    // writing side is open is reset at once.
    void abandon(StreamId stream);

    // Both directions end now; no further event of this stream follows.
    void reset(StreamId stream);

    // Tells the peer that we leave. Its further streams are refused.
    void go_away(std::uint32_t code);

    [[nodiscard]] bool has_output() const { return !output_.empty(); }

    // All bytes to be written, in order; they count as written. May make events.
    [[nodiscard]] Bytes take_output();

    // When on_time() wants to be called.
    [[nodiscard]] TimePoint deadline() const;

    // Sends the keep-alive ping. Error: timed_out, when the last one was never answered.
    [[nodiscard]] Result<void> on_time(TimePoint now);

    // Known: not ended in both directions, or not read to the end.
    [[nodiscard]] bool is_alive(StreamId stream) const { return streams_.contains(stream); }

    [[nodiscard]] std::size_t stream_count() const { return streams_.size(); }

    // The shortest of the answered pings: the others waited behind data.
    [[nodiscard]] std::optional<Duration> round_trip() const { return round_trip_; }

    // Given to the application and not released yet. Never over Limits::unread_bytes_max().
    [[nodiscard]] std::uint64_t unread_bytes() const;

private:
    // window == receive_window + released_bytes + what the application has not read.
    struct Stream {
        std::uint64_t send_window = initial_window_bytes;    // What the peer lets us send.
        std::uint32_t window = initial_window_bytes;         // Credit and unread bytes, at most.
        std::uint32_t receive_window = initial_window_bytes; // What we let the peer send.
        std::uint32_t released_bytes = 0; // Read by the application, not yet given back.
        std::optional<TimePoint>
            credited;                 // When the peer last got credit, its SYN being the first.
        std::size_t queued_bytes = 0; // Of output_, since the last take_output().
        bool acknowledged = false;    // Ours only: the peer's are at once.
        bool read_ended = false;
        bool write_ended = false;
        bool abandoned = false;
        bool waiting = false; // In waiting_: the application wants to send more.

        [[nodiscard]] std::uint32_t unread_bytes() const {
            return window - receive_window - released_bytes;
        }
    };

    using Streams = std::map<StreamId, Stream>;

    struct Ping {
        std::uint32_t value = 0;
        TimePoint sent;
    };

    Result<void> receive_part(BytesView& bytes, TimePoint now);
    void take_body(BytesView part);
    Result<void> on_header(Header const& header, TimePoint now);
    Result<void> on_stream_frame(Header const& header, TimePoint now);
    Result<void> on_syn(Header const& header, TimePoint now);
    Result<void> on_data(Streams::iterator stream, Header const& header);
    Result<void> on_window_update(Streams::iterator stream, Header const& header);
    Result<void> on_ping(Header const& header, TimePoint now);
    void refuse_data(Streams::iterator stream);
    void on_reset(Streams::iterator stream);
    void on_fin(StreamId id);
    [[nodiscard]] std::uint32_t growth(Stream const& stream, TimePoint now) const;
    [[nodiscard]] bool has_room();
    void push(Header const& header);
    void push_ping(TimePoint now);
    void forget_if_ended(Streams::iterator stream);
    void erase(Streams::iterator stream);
    void note_writable(StreamId id, Stream const& stream);
    [[nodiscard]] Error fail(Errc code, std::string text);
    [[nodiscard]] bool is_ours(std::uint32_t id) const;
    [[nodiscard]] std::size_t room(Stream const& stream) const;

    Side side_;
    Limits limits_;
    Streams streams_;
    std::deque<Event> events_;
    Bytes output_;
    std::deque<StreamId> waiting_; // In the order in which they last sent: the first is next.
    std::size_t unacknowledged_ = 0;
    std::uint64_t next_id_;
    std::uint32_t grown_bytes_ = 0;                       // Of all windows, beyond the initial.
    std::uint32_t largest_window_ = initial_window_bytes; // Ever, so of ended streams too.
    std::array<std::uint8_t, header_bytes> header_{};
    std::size_t header_filled_ = 0;
    // The body of a data frame that is not complete yet. No stream: it is skipped.
    std::uint32_t body_missing_ = 0;
    std::optional<StreamId> body_stream_;
    bool fin_after_body_ = false;
    std::optional<Ping> ping_;
    std::uint32_t next_ping_value_ = 1;
    TimePoint next_ping_;
    std::optional<Duration> round_trip_;
    bool peer_left_ = false;
    bool left_ = false;
    std::optional<Error> failed_;
};

} // namespace exo::net::yamux
