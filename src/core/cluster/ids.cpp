// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/ids.hpp"

#include "base/bytes.hpp"

#include <sodium/crypto_hash_sha256.h>

#include <array>

namespace exo::cluster {

std::string derived_uuid(std::string_view kind, std::string_view from) {
    // `kind` is ours and has no NUL: the two cannot run into each other.
    std::string text(kind);
    text += '\0';
    text += from;
    BytesView const input = as_bytes(text);
    std::array<std::uint8_t, crypto_hash_sha256_BYTES> digest{};
    crypto_hash_sha256(digest.data(), input.data(), input.size());
    digest[6] = static_cast<std::uint8_t>((digest[6] & 0x0f) | 0x80); // Version 8: our own.
    digest[8] = static_cast<std::uint8_t>((digest[8] & 0x3f) | 0x80); // The variant of RFC 9562.
    std::string uuid = to_hex(BytesView(digest).first(16));
    for (std::size_t const dash : {8u, 13u, 18u, 23u}) {
        uuid.insert(dash, 1, '-');
    }
    return uuid;
}

} // namespace exo::cluster
