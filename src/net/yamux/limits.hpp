// SPDX-License-Identifier: Apache-2.0
//
// What a yamux session takes of its peer, with defaults. Part of the Host's configuration.
#pragma once

#include "base/time.hpp"

#include <cstddef>
#include <cstdint>

namespace exo::net::yamux {

// Credit of each new stream in each direction, fixed by the protocol.
constexpr std::uint32_t initial_window_bytes = 256 * 1024;

struct Limits {
    // Streams alive at once, of both sides. Each may bring its initial window: 64 MiB in all. rust
    // takes 512, but no peer keeps more than some tens. A further one of the peer is reset.
    std::size_t streams_max = 256;
    // Own streams without an ACK: rust stalls at so many, so a peer may rely on it.
    std::size_t unacknowledged_max = 256;
    // To where the receive window of one stream grows: fills 1 Gbit/s at 130 ms, more than any LAN
    // needs. rust and js go as far.
    std::uint32_t window_bytes_max = 16 * 1024 * 1024;
    // By how much all windows of a session together may exceed the initial ones: two fast streams.
    std::uint32_t growth_bytes_max = 32 * 1024 * 1024;
    // Body of a data frame that we send; rust's own limit, and small enough to share a link fairly.
    std::size_t frame_bytes_max = 16 * 1024;
    // Data of all streams that waits for take_output(); send() takes no more.
    std::size_t output_bytes_max = 256 * 1024;
    // The share of it that one stream may fill between two take_output(), so that none starves, and
    // enough to fill two Noise messages at a time.
    std::size_t output_share_max = 128 * 1024;
    // Answers and credit on top of that: a peer that makes us answer and does not read is cut off.
    std::size_t control_bytes_max = 64 * 1024;
    Duration ping_interval = 10s;
    // An unanswered ping means that the peer or the link is dead. Generous: the answer may queue
    // behind a full buffer on a slow link.
    Duration ping_timeout = 30s;

    // The bytes that a peer can make us hold, unread, over one session: 96 MiB by default. No
    // stream is forgotten, and no window shrinks, before its bytes were read.
    [[nodiscard]] constexpr std::uint64_t unread_bytes_max() const {
        return std::uint64_t{initial_window_bytes} * streams_max + growth_bytes_max;
    }
};

} // namespace exo::net::yamux
