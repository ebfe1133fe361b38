// SPDX-License-Identifier: Apache-2.0
#include "net/wire/varint.hpp"

#include "base/assert.hpp"

namespace exo::net {
namespace {

constexpr std::size_t varint_bytes_max = 9;

} // namespace

void append_varint(Bytes& to, std::uint64_t value) {
    EXO_ASSERT(value <= varint_max);
    while (value >= 0x80) {
        to.push_back(static_cast<std::uint8_t>(value | 0x80));
        value >>= 7;
    }
    to.push_back(static_cast<std::uint8_t>(value));
}

Result<std::optional<Varint>> read_varint(BytesView bytes, std::uint64_t value_max) {
    EXO_ASSERT(value_max <= varint_max);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes.size() && i < varint_bytes_max; ++i) {
        value |= static_cast<std::uint64_t>(bytes[i] & 0x7f) << (7 * i);
        // What follows only adds to the value: refuse early, so that no one waits in vain.
        if (value > value_max) {
            return Error(Errc::protocol, "varint over its limit of " + std::to_string(value_max));
        }
        if ((bytes[i] & 0x80) == 0) {
            if (i > 0 && bytes[i] == 0) {
                return Error(Errc::protocol, "varint longer than needed");
            }
            return std::optional(Varint{value, i + 1});
        }
    }
    if (bytes.size() >= varint_bytes_max) {
        return Error(Errc::protocol, "varint of more than 9 bytes");
    }
    return std::optional<Varint>();
}

} // namespace exo::net
