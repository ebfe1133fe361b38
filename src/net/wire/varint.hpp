// SPDX-License-Identifier: Apache-2.0
//
// Unsigned varints as multiformats has them: seven bits a byte, the lowest first, at most nine
// bytes, and only the shortest form is valid.
#pragma once

#include "base/bytes.hpp"

#include <optional>

namespace exo::net {

// Nine bytes of seven bits (the multiformats limit).
constexpr std::uint64_t varint_max = (std::uint64_t{1} << 63) - 1;

struct Varint {
    std::uint64_t value = 0;
    std::size_t bytes_count = 0; // Its length on the wire.
    bool operator==(Varint const&) const = default;
};

// REQUIRES: value <= varint_max.
void append_varint(Bytes& to, std::uint64_t value);

// The varint at the front of `bytes`; empty if more bytes are needed.
// Error: protocol, for a longer form than needed or a value over `value_max`.
[[nodiscard]] Result<std::optional<Varint>>
read_varint(BytesView bytes, std::uint64_t value_max = varint_max);

} // namespace exo::net
