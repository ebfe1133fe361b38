// SPDX-License-Identifier: Apache-2.0
#include "net/wire/public_key.hpp"

#include <algorithm>

namespace exo::net {
namespace {

// Field 1 (type) = 1 (Ed25519), field 2 (data) with its length, 32.
constexpr std::array<std::uint8_t, 4> ed25519_prefix{0x08, 0x01, 0x12, 0x20};

} // namespace

Bytes to_protobuf(PublicKey const& key) {
    Bytes bytes(ed25519_prefix.begin(), ed25519_prefix.end());
    append(bytes, key.bytes);
    return bytes;
}

Result<PublicKey> public_key_from_protobuf(BytesView bytes) {
    PublicKey key;
    auto const prefix = bytes.first(std::min(bytes.size(), ed25519_prefix.size()));
    if (std::ranges::equal(prefix, ed25519_prefix) &&
        bytes.size() == ed25519_prefix.size() + key.bytes.size()) {
        std::ranges::copy(bytes.subspan(ed25519_prefix.size()), key.bytes.begin());
        return key;
    }
    // Types 0, 2 and 3 are RSA, secp256k1 and ECDSA.
    if (bytes.size() > 2 && bytes[0] == 0x08 && bytes[1] != 1 && bytes[1] <= 3) {
        return Error(Errc::unsupported, "a public key that is not Ed25519; exo knows no other");
    }
    return Error(Errc::protocol, "no public key: " + std::to_string(bytes.size()) + " odd bytes");
}

} // namespace exo::net
