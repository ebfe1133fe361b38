// SPDX-License-Identifier: Apache-2.0
//
// The symmetric half of the Noise protocol framework (revision 34, sections 5.1 and 5.2), with
// ChaChaPoly and SHA256. Used by handshake.cpp and transport.cpp only.
#pragma once

#include "base/bytes.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

namespace exo::net::noise {

using Key = std::array<std::uint8_t, 32>; // Also a hash and a curve point.

constexpr std::size_t tag_bytes = 16;

// A key and its message counter.
class CipherState {
public:
    explicit CipherState(Key const& key)
        : key_(key) {}

    CipherState(CipherState const&) = default;
    CipherState& operator=(CipherState const&) = default;
    ~CipherState(); // Wipes the key.

    // Appends plain.size() + tag_bytes bytes.
    void encrypt(BytesView associated, BytesView plain, Bytes& to);

    // Appends cipher.size() - tag_bytes bytes; false if the bytes are not authentic.
    [[nodiscard]] bool decrypt(BytesView associated, BytesView cipher, Bytes& to);

private:
    using Nonce = std::array<std::uint8_t, 12>;

    [[nodiscard]] Nonce next_nonce();

    Key key_;
    std::uint64_t counter_ = 0;
};

class SymmetricState {
public:
    SymmetricState(); // Of Noise_XX_25519_ChaChaPoly_SHA256, without a prologue.
    SymmetricState(SymmetricState const&) = delete;
    SymmetricState& operator=(SymmetricState const&) = delete;
    ~SymmetricState();

    void mix_hash(BytesView data);
    void mix_key(Key const& shared_secret);

    // Without a key yet, these copy.
    void encrypt_and_hash(BytesView plain, Bytes& to);
    [[nodiscard]] bool decrypt_and_hash(BytesView cipher, Bytes& to);

    // For the initiator's and for the responder's messages.
    [[nodiscard]] std::pair<CipherState, CipherState> split() const;

    [[nodiscard]] Key const& hash() const { return hash_; }

private:
    Key chaining_key_;
    Key hash_;
    std::optional<CipherState> cipher_;
};

} // namespace exo::net::noise
