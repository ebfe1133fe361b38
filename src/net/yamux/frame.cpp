// SPDX-License-Identifier: Apache-2.0
#include "net/yamux/frame.hpp"

#include "base/assert.hpp"

#include <fmt/core.h>

#include <span>

namespace exo::net::yamux {
namespace {

constexpr std::uint8_t version = 0;

std::uint32_t big_endian(BytesView bytes) {
    std::uint32_t value = 0;
    for (auto const byte : bytes) {
        value = value << 8 | byte;
    }
    return value;
}

void append_big_endian(Bytes& to, std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        to.push_back(static_cast<std::uint8_t>(value >> shift));
    }
}

} // namespace

void append_header(Bytes& to, Header const& header) {
    to.push_back(version);
    to.push_back(static_cast<std::uint8_t>(header.type));
    to.push_back(static_cast<std::uint8_t>(header.flags >> 8));
    to.push_back(static_cast<std::uint8_t>(header.flags));
    append_big_endian(to, header.stream);
    append_big_endian(to, header.length);
}

Result<Header> parse_header(BytesView bytes) {
    EXO_ASSERT(bytes.size() == header_bytes);
    if (bytes[0] != version) {
        return Error(Errc::protocol, fmt::format("yamux: frame of version {}, not 0", bytes[0]));
    }
    if (bytes[1] > static_cast<std::uint8_t>(FrameType::go_away)) {
        return Error(Errc::protocol, fmt::format("yamux: unknown frame type {}", bytes[1]));
    }
    return Header{
        .type = static_cast<FrameType>(bytes[1]),
        .flags = static_cast<std::uint16_t>(big_endian(bytes.subspan(2, 2))),
        .stream = big_endian(bytes.subspan(4, 4)),
        .length = big_endian(bytes.subspan(8, 4)),
    };
}

} // namespace exo::net::yamux
