// SPDX-License-Identifier: Apache-2.0
//
// An Ed25519 public key and its libp2p form, the protobuf { 1 type = 1, 2 data }. Peer ids hash
// this form, so it must be the one and only encoding: 08 01 12 20 and 32 bytes.
#pragma once

#include "base/bytes.hpp"

#include <array>
#include <compare>

namespace exo::net {

struct PublicKey {
    std::array<std::uint8_t, 32> bytes{};
    auto operator<=>(PublicKey const&) const = default;
};

[[nodiscard]] Bytes to_protobuf(PublicKey const& key);

// Errors: unsupported for keys of other types, protocol for anything else.
[[nodiscard]] Result<PublicKey> public_key_from_protobuf(BytesView bytes);

} // namespace exo::net
