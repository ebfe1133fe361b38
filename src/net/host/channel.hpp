// SPDX-License-Identifier: Apache-2.0
//
// One connection from the first byte to the muxer, without I/O: private network, security
// negotiation, Noise, muxer negotiation, and then the encrypted byte stream that yamux speaks on
// (specs/libp2p.md 3 to 5). Bytes in any cut; each layer hands the next what came behind it.
//
// The dialer is lazy (V1Lazy): it sends its proposal and what follows in one go, and is ready()
// once Noise has told who the peer is; the muxer's answer is checked when it comes.
#pragma once

#include "base/bytes.hpp"
#include "net/multistream/negotiation.hpp"
#include "net/noise/handshake.hpp"
#include "net/pnet/session.hpp"

#include <optional>
#include <variant>

namespace exo::net {

constexpr char const* security_protocol = "/noise";
constexpr char const* muxer_protocol = "/yamux/1.0.0";

enum class Direction { outbound, inbound };

// Fresh random bytes of one connection.
struct ChannelSecrets {
    pnet::Nonce nonce{};
    noise::Secrets noise;
};

class Channel {
public:
    // `psk`: none on a public network. `identity` must outlive the channel's handshake.
    // `expected`: who must answer.
    Channel(
        Direction direction,
        std::optional<Psk> const& psk,
        Identity const& identity,
        ChannelSecrets const& secrets,
        std::optional<PeerId> expected
    );

    // Takes the next bytes of the socket (they are decrypted in place). Errors: protocol,
    // unsupported; final.
    [[nodiscard]] Result<void> receive(std::span<std::uint8_t> bytes);

    // Bytes for the socket, in order; they count as written.
    [[nodiscard]] Bytes take_output() { return std::exchange(output_, {}); }

    // The peer is known and yamux may begin.
    [[nodiscard]] bool ready() const;

    [[nodiscard]] PeerId const& peer() const { return peer_; } // REQUIRES: ready().

    // What the peer's yamux sent.
    [[nodiscard]] Bytes take_plain() { return std::exchange(plain_, {}); }

    // Encrypts into the output. REQUIRES: ready().
    void send(BytesView plain);

private:
    using Negotiator = std::variant<multistream::Dialer, multistream::Listener>;

    [[nodiscard]] Negotiator negotiator(char const* protocol) const;
    Result<void> receive_security(BytesView bytes);
    Result<void> receive_noise(BytesView bytes);
    Result<void> receive_encrypted(BytesView bytes);
    Result<void> receive_muxer(BytesView bytes);
    // Feeds `bytes` to a negotiator that is not confirmed; returns what is behind its agreement.
    Result<Bytes> negotiate(Negotiator& negotiator, BytesView bytes);
    void finish_noise();
    void push_raw(Bytes bytes);
    void push_handshake_output();

    Direction direction_;
    std::optional<pnet::Session> pnet_;
    Negotiator security_;
    std::unique_ptr<noise::Handshake> handshake_; // Until it is done.
    std::optional<noise::Transport> transport_;   // From then on.
    std::optional<Negotiator> muxer_;
    PeerId peer_;
    Bytes output_;
    Bytes plain_;
};

} // namespace exo::net
