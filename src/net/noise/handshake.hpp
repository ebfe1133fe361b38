// SPDX-License-Identifier: Apache-2.0
//
// libp2p's Noise handshake, XX, without I/O (specs/libp2p.md 5; Noise revision 34). It ends with a
// Transport and with the peer id that the other side has proven to be: the peer signs its Noise
// static key with its identity. Extensions are neither sent nor read, so the muxer is negotiated
// by multistream afterwards.
//
//     initiator -> e    responder -> e, ee, s, es, payload    initiator -> s, se, payload
#pragma once

#include "base/bytes.hpp"
#include "net/crypto/identity.hpp"
#include "net/noise/symmetric.hpp"
#include "net/noise/transport.hpp"

#include <optional>
#include <utility>

namespace exo::net::noise {

enum class Side { initiator, responder };

// Secret X25519 keys: one of the process or connection, and one that must be fresh each time.
struct Secrets {
    Key static_key{};
    Key ephemeral_key{};
};

// Handshake messages hold two keys and a payload of 104 bytes, some more with extensions. Peers
// are strangers until its end, so they get no more room.
constexpr std::size_t handshake_message_bytes_max = 4096;

class Handshake {
public:
    // With `expected`, a peer that proves to be someone else is refused. `identity` must outlive
    // the handshake.
    Handshake(
        Side side, Identity const& identity, Secrets const& secrets, std::optional<PeerId> expected
    );
    Handshake(Handshake const&) = delete;
    Handshake& operator=(Handshake const&) = delete;
    ~Handshake(); // Wipes the secrets.

    // Takes bytes of the peer, cut anywhere, until done(). Errors: protocol; not_found
    // (another peer than the expected one); final.
    [[nodiscard]] Result<void> receive(BytesView bytes);

    [[nodiscard]] Bytes take_output() { return std::exchange(output_, {}); }

    [[nodiscard]] bool done() const { return step_ == Step::done; }

    // These three REQUIRE: done().
    [[nodiscard]] PeerId const& peer() const;
    [[nodiscard]] Transport transport() const;
    [[nodiscard]] Bytes take_rest(); // Received behind the handshake: for the transport.

    [[nodiscard]] Key const& hash() const { return symmetric_.hash(); }

private:
    enum class Step { read_1, read_2, read_3, done };

    struct KeyPair {
        Key secret{};
        Key public_key{};
    };

    [[nodiscard]] static KeyPair key_pair(Key const& secret);

    Result<void> on_message(BytesView message);
    Result<void> read_1(BytesView message);
    Result<void> read_2(BytesView message);
    Result<void> read_3(BytesView message);
    void write_1();
    Result<void> write_2();
    Result<void> write_3();
    void push_message(BytesView message);
    Result<void> mix_shared(Key const& secret, Key const& public_key);
    Result<void> read_static_key(BytesView cipher);
    Result<void> read_payload(BytesView cipher);
    [[nodiscard]] Bytes own_payload() const;

    Side side_;
    Identity const& identity_;
    std::optional<PeerId> expected_;
    KeyPair static_;
    KeyPair ephemeral_;
    Key peer_static_{};
    Key peer_ephemeral_{};
    SymmetricState symmetric_;
    Step step_;
    PeerId peer_;
    Bytes input_;
    Bytes output_;
};

} // namespace exo::net::noise
