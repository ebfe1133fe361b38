// SPDX-License-Identifier: Apache-2.0
//
// `/ipfs/ping/1.0.0` (specs/libp2p.md 8): 32 random bytes and their echo. Both roles as machines
// without I/O; the host moves the bytes of the stream and comes back at the deadline.
//
// Answering is not optional: rust drops a peer that does not. Asking tells foreign peers from dead
// ones; between exo nodes the beat of the node layer is the quicker one.
#pragma once

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "base/time.hpp"

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <variant>

namespace exo::net::ping {

constexpr char const* protocol = "/ipfs/ping/1.0.0";
constexpr std::size_t payload_bytes = 32;

using Payload = std::array<std::uint8_t, payload_bytes>;

// Echoes whole payloads, until the other side ends the stream; never closes first.
class Responder {
public:
    // The bytes to write now: all payloads that are complete. go sends the next one unasked.
    [[nodiscard]] Bytes receive(BytesView bytes);

private:
    Bytes partial_; // Less than a payload.
};

struct Timing {
    Duration interval = 2500ms; // exo's.
    Duration timeout = 2500ms;
    // Misses in a row until the peer counts as lost. The first is nothing: js resets every ping
    // stream after 10 s.
    int misses_max = 3;
};

// What the driver does next.
struct OpenStream {
    bool operator==(OpenStream const&) const = default;
};

struct Send {
    Payload payload;
    bool operator==(Send const&) const = default;
};

struct ResetStream {
    bool operator==(ResetStream const&) const = default;
};

struct Answered {
    Duration round_trip;
    bool operator==(Answered const&) const = default;
};

// `misses_max` pings in a row were not answered. Once; the driver closes the connections.
struct Lost {
    std::string reason;
    bool operator==(Lost const&) const = default;
};

using Action = std::variant<OpenStream, Send, ResetStream, Answered, Lost>;

// Pings one connection. One stream at a time, kept as long as it lasts.
//
// Invariant: a question is open (waiting_) only with a stream or while one is being opened.
class Initiator {
public:
    Initiator(Random random, TimePoint now, Timing timing = {});

    // `heard`: when the connection last brought anything. A question that runs out of time while
    // other bytes come is no miss: it waits behind megabytes that the peer is still reading.
    void on_time(TimePoint now, TimePoint heard);
    void on_stream_opened(TimePoint now);
    void on_bytes(BytesView bytes, TimePoint now);

    // The stream could not be opened, was reset, or ended.
    void on_stream_failed(TimePoint now);

    // The peer does not speak ping: it is left alone from now on, and not lost.
    void on_refused();

    // Oldest first; take all after each call.
    [[nodiscard]] std::optional<Action> next_action();

    // When on_time() wants to be called.
    [[nodiscard]] TimePoint deadline() const;

private:
    enum class State { no_stream, opening, idle, waiting, stopped };

    void ask(TimePoint now);
    void miss(TimePoint now, std::string reason);

    Random random_;
    Timing timing_;
    State state_ = State::no_stream;
    TimePoint next_ping_; // While not waiting.
    TimePoint asked_;     // While opening or waiting.
    Payload payload_{};
    Bytes answer_;
    int misses_ = 0;
    std::deque<Action> actions_;
};

} // namespace exo::net::ping
