// SPDX-License-Identifier: Apache-2.0
//
// How two ranks come to trust one connection, without I/O. The driver (connector.hpp) moves bytes;
// one object serves one connection.
//
//     dialler                                        listener
//     "exo ranks 1\n", from, to, nonce        ->
//                                             <-     verdict, nonce
//     proof of the key                        ->
//                                             <-     verdict, proof of the key
//     membership (sealed from here on)        <->    membership
//     chosen                                  ->
//
// A proof is a keyed hash of both nonces and both ranks, so it is good for this connection and this
// direction only. The dialler proves itself first: a stranger at the port learns nothing but that
// a rank is there. All that is said before the proofs is a claim; only what proven ranks say of
// their membership is final.
#pragma once

#include "collective/tcp/membership.hpp"
#include "collective/tcp/record.hpp"

#include <optional>

namespace exo::collective {

using Nonce32 = std::array<std::uint8_t, 32>;

// What is left of a finished handshake: the connection of two ranks.
struct Session {
    std::uint32_t peer = 0;
    Sealer sealer;
    Opener opener;
    bool plain = false; // Both sides leave their further records unsealed.
    Bytes rest;         // Received behind the handshake, not yet opened.
};

class Handshake {
public:
    struct Self {
        Key key{};
        Membership membership;
        std::uint32_t size = 0;
        bool plain_allowed = false; // allow_plain() says it later, once the addresses are known.
    };

    // Queues the first message. REQUIRES: `to` is another rank.
    [[nodiscard]] static Handshake
    dial(Self self, std::uint32_t to, std::string where, Nonce32 const& nonce);

    [[nodiscard]] static Handshake listen(Self self, std::string where, Nonce32 const& nonce);

    // This side needs no cipher here. REQUIRES: before the first receive().
    void allow_plain() { self_.plain_allowed = true; }

    // Takes received bytes, cut anywhere. Errors are final: protocol (no rank of ours speaks
    // there), unavailable (it says that it is another rank, or that our key is wrong), and
    // conflict, which comes from a rank that has proven itself and therefore ends the group.
    [[nodiscard]] Result<void> receive(BytesView bytes);

    // Bytes to send now.
    [[nodiscard]] Bytes take_output() { return std::exchange(output_, {}); }

    // The other side has proven itself and agrees with us. For the listener this means that it
    // was also chosen.
    [[nodiscard]] bool complete() const { return state_ == State::complete; }

    // Seals `chosen`. REQUIRES: a dialler, complete.
    void choose();

    // REQUIRES: complete. Once.
    [[nodiscard]] Session take_session();

private:
    enum class State { hello, answer, proof, counter_proof, membership, chosen, complete };

    Handshake(Self self, std::string where, Nonce32 const& nonce)
        : self_(std::move(self))
        , where_(std::move(where))
        , own_nonce_(nonce) {}

    [[nodiscard]] std::size_t bytes_wanted() const;
    [[nodiscard]] Result<void> on_part(BytesView part);
    [[nodiscard]] Result<void> on_hello(BytesView part);
    [[nodiscard]] Result<void> on_answer(BytesView part);
    [[nodiscard]] Result<void> on_proof(BytesView part);
    [[nodiscard]] Result<void> on_counter_proof(BytesView part);
    [[nodiscard]] Result<bool> take_record();
    [[nodiscard]] Result<void> on_membership(BytesView payload);
    void start_records();
    [[nodiscard]] Digest proof(bool of_dialler) const;
    [[nodiscard]] Digest derive(std::string_view purpose) const;

    Self self_;
    std::string where_;
    Nonce32 own_nonce_;
    Nonce32 peer_nonce_{};
    bool dialler_ = false;
    std::uint32_t peer_ = 0;
    State state_ = State::hello;
    bool plain_ = false;
    std::optional<Sealer> sealer_;
    std::optional<Opener> opener_;
    Bytes input_;
    Bytes output_;
};

} // namespace exo::collective
