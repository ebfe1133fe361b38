// SPDX-License-Identifier: Apache-2.0
//
// Who a peer is: the multihash of its public key. For Ed25519 the hash is the identity function, so
// the key can be taken out again (38 bytes: 00 24, then the key's protobuf). A node id of exo is
// the text of a peer id. Specs: libp2p peer-ids; specs/libp2p.md 13.
#pragma once

#include "base/bytes.hpp"
#include "net/wire/public_key.hpp"

#include <compare>
#include <functional>
#include <optional>

namespace exo::net {

class PeerId {
public:
    PeerId() = default; // No peer: empty.

    [[nodiscard]] static PeerId of(PublicKey const& key);

    // A multihash: identity up to 42 bytes, or SHA2-256. Error: protocol.
    [[nodiscard]] static Result<PeerId> from_bytes(BytesView multihash);

    // base58btc ("12D3KooW...", "Qm...") or a CIDv1 in base32 ("bafz...") or base58 ("z...").
    // Error: invalid_argument.
    [[nodiscard]] static Result<PeerId> parse(std::string_view text);

    [[nodiscard]] Bytes const& bytes() const { return bytes_; }

    [[nodiscard]] std::string text() const; // base58btc; "" for no peer.

    // The last letters of text(), for log lines.
    [[nodiscard]] std::string short_text() const;

    // The Ed25519 key within; empty for ids that hold only a hash of it.
    [[nodiscard]] std::optional<PublicKey> public_key() const;

    [[nodiscard]] bool empty() const { return bytes_.empty(); }

    auto operator<=>(PeerId const&) const = default;

private:
    explicit PeerId(Bytes bytes)
        : bytes_(std::move(bytes)) {}

    Bytes bytes_;
};

} // namespace exo::net

template <>
struct std::hash<exo::net::PeerId> {
    std::size_t operator()(exo::net::PeerId const& peer) const {
        return std::hash<std::string_view>{}(exo::as_text(peer.bytes()));
    }
};
