// SPDX-License-Identifier: Apache-2.0
//
// Numbers on the wire between ranks: 32 bits, most significant byte first.
#pragma once

#include "base/bytes.hpp"

namespace exo::collective {

inline void write_u32(std::uint8_t* to, std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        *to++ = static_cast<std::uint8_t>(value >> shift);
    }
}

inline void append_u32(Bytes& to, std::uint32_t value) {
    to.resize(to.size() + 4);
    write_u32(to.data() + to.size() - 4, value);
}

// REQUIRES: at least 4 bytes.
inline std::uint32_t read_u32(BytesView bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) {
        value = value << 8 | bytes[i];
    }
    return value;
}

} // namespace exo::collective
