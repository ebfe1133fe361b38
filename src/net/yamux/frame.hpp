// SPDX-License-Identifier: Apache-2.0
//
// The header of a yamux frame: 12 bytes, big-endian (specs/libp2p.md 6). Pure.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"

#include <cstdint>

namespace exo::net::yamux {

constexpr std::size_t header_bytes = 12;

enum class FrameType : std::uint8_t { data = 0, window_update = 1, ping = 2, go_away = 3 };

// Bits of Header::flags; others are ignored.
namespace flag {
constexpr std::uint16_t syn = 1;
constexpr std::uint16_t ack = 2;
constexpr std::uint16_t fin = 4;
constexpr std::uint16_t rst = 8;
} // namespace flag

struct Header {
    FrameType type = FrameType::data;
    std::uint16_t flags = 0;
    std::uint32_t stream = 0; // 0: the session itself.
    std::uint32_t length = 0; // Bytes of body for data; else credit, ping value or code.

    [[nodiscard]] bool has(std::uint16_t bit) const { return (flags & bit) != 0; }

    bool operator==(Header const&) const = default;
};

void append_header(Bytes& to, Header const& header);

// REQUIRES: exactly `header_bytes`. Error: protocol, for another version or an unknown type.
[[nodiscard]] Result<Header> parse_header(BytesView bytes);

} // namespace exo::net::yamux
