// SPDX-License-Identifier: Apache-2.0
//
// A node's identity: an Ed25519 key pair (libsodium). The file `node_id.keypair` holds libp2p's
// private key protobuf { 1 type = 1, 2 data = seed and public key }, as rust-libp2p writes it.
#pragma once

#include "base/bytes.hpp"
#include "net/wire/peer_id.hpp"
#include "net/wire/public_key.hpp"

#include <array>
#include <filesystem>

namespace exo::net {

using Signature = std::array<std::uint8_t, 64>;
using Seed = std::array<std::uint8_t, 32>;

class Identity {
public:
    [[nodiscard]] static Identity generate();
    [[nodiscard]] static Identity from_seed(Seed const& seed);

    // Errors: not_found, io, corrupt (with the remedy).
    [[nodiscard]] static Result<Identity> load(std::filesystem::path const& file);

    // The identity of `file`, or a new one that is saved there first. Errors: those of both.
    [[nodiscard]] static Result<Identity> load_or_create(std::filesystem::path const& file);

    Identity(Identity const&) = default;
    Identity& operator=(Identity const&) = default;
    ~Identity(); // Wipes the secret.

    // Mode 0600; either the whole new file is there afterwards or what was there before.
    // Error: io.
    [[nodiscard]] Result<void> save(std::filesystem::path const& file) const;

    [[nodiscard]] PublicKey const& public_key() const { return public_key_; }

    [[nodiscard]] PeerId const& peer_id() const { return peer_id_; }

    [[nodiscard]] Signature sign(BytesView message) const;

private:
    Identity() = default;

    std::array<std::uint8_t, 64> secret_{}; // Seed and public key, as libsodium has it.
    PublicKey public_key_;
    PeerId peer_id_;
};

[[nodiscard]] bool verify(PublicKey const& key, BytesView message, BytesView signature);

} // namespace exo::net
