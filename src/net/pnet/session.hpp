// SPDX-License-Identifier: Apache-2.0
//
// The private network (PSK v1, specs/libp2p.md 3): each side sends 24 random bytes, its nonce, then
// everything XORed with the XSalsa20 key stream of key and nonce, one stream per direction for the
// life of the connection. It hides and it does not authenticate: a peer with another key shows as
// garbage to the protocol above. Without I/O.
#pragma once

#include "base/bytes.hpp"
#include "net/crypto/psk.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace exo::net::pnet {

constexpr std::size_t nonce_bytes = 24;
using Nonce = std::array<std::uint8_t, nonce_bytes>;

// One direction's key stream, applied to bytes in any cut.
class KeyStream {
public:
    KeyStream(Psk const& psk, Nonce const& nonce)
        : psk_(psk)
        , nonce_(nonce) {}

    // XORs the next bytes.size() bytes of the key stream into `bytes`.
    void apply(std::span<std::uint8_t> bytes);

private:
    static constexpr std::size_t block_bytes = 64;

    void apply_started_block(std::span<std::uint8_t>& bytes);

    Psk psk_;
    Nonce nonce_;
    std::uint64_t next_block_ = 0;
    std::array<std::uint8_t, block_bytes> block_{}; // The block before next_block_, if partly used.
    std::size_t block_used_ = block_bytes;
};

class Session {
public:
    // `own_nonce` must be random, never used before with this key.
    Session(Psk const& psk, Nonce const& own_nonce);

    // Our nonce: the first bytes to be written.
    [[nodiscard]] BytesView hello() const { return own_nonce_; }

    // The next bytes to be written, in place.
    void encrypt(std::span<std::uint8_t> bytes) { own_stream_.apply(bytes); }

    // The next bytes that were read, in place; returns those of them that are plain text, a tail
    // (the peer's nonce comes first).
    [[nodiscard]] BytesView decrypt(std::span<std::uint8_t> bytes);

private:
    Psk psk_;
    Nonce own_nonce_;
    KeyStream own_stream_;
    Nonce peer_nonce_{};
    std::size_t peer_nonce_filled_ = 0;
    std::optional<KeyStream> peer_stream_; // Known with the whole nonce.
};

} // namespace exo::net::pnet
