// SPDX-License-Identifier: Apache-2.0
#include "base/entropy.hpp"

#include "base/assert.hpp"
#include "base/bytes.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/random.h>
#endif

namespace exo {

void fill_random(std::span<std::uint8_t> bytes) {
    // getentropy gives at most 256 bytes a call and fails only if the system has no source at all.
    constexpr std::size_t piece_bytes_max = 256;
    while (!bytes.empty()) {
        auto const piece = bytes.first(std::min(bytes.size(), piece_bytes_max));
        EXO_ASSERT(getentropy(piece.data(), piece.size()) == 0);
        bytes = bytes.subspan(piece.size());
    }
}

std::uint64_t random_u64() {
    std::array<std::uint8_t, 8> bytes{};
    fill_random(bytes);
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

std::string random_uuid() {
    std::array<std::uint8_t, 16> bytes{};
    fill_random(bytes);
    bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0f) | 0x40); // RFC 9562: version 4,
    bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3f) | 0x80); // variant 10.
    auto text = to_hex(bytes);
    for (std::size_t const at : {20u, 16u, 12u, 8u}) {
        text.insert(at, 1, '-');
    }
    return text;
}

} // namespace exo
