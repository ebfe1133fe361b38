// SPDX-License-Identifier: Apache-2.0
#include "net/noise/handshake.hpp"

#include "base/assert.hpp"
#include "net/crypto/sodium.hpp"
#include "net/noise/payload.pb.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>

namespace exo::net::noise {
namespace {

constexpr std::string_view signature_prefix = "noise-libp2p-static-key:";
constexpr std::size_t length_bytes = 2;
constexpr std::size_t key_bytes = std::tuple_size_v<Key>;
constexpr std::size_t encrypted_key_bytes = key_bytes + tag_bytes;

Error failed(std::string_view why) {
    return Error(Errc::protocol, fmt::format("noise: {}", why));
}

Key key_at_front(BytesView bytes) {
    Key key{};
    std::ranges::copy(bytes.first(key.size()), key.begin());
    return key;
}

Bytes signed_text(Key const& static_key) {
    Bytes text(signature_prefix.begin(), signature_prefix.end());
    append(text, static_key);
    return text;
}

} // namespace

Handshake::KeyPair Handshake::key_pair(Key const& secret) {
    ensure_sodium();
    KeyPair pair{.secret = secret};
    EXO_ASSERT(crypto_scalarmult_base(pair.public_key.data(), pair.secret.data()) == 0);
    return pair;
}

Handshake::Handshake(
    Side side, Identity const& identity, Secrets const& secrets, std::optional<PeerId> expected
)
    : side_(side)
    , identity_(identity)
    , expected_(std::move(expected))
    , static_(key_pair(secrets.static_key))
    , ephemeral_(key_pair(secrets.ephemeral_key))
    , step_(side == Side::initiator ? Step::read_2 : Step::read_1) {
    if (side_ == Side::initiator) {
        write_1();
    }
}

Handshake::~Handshake() {
    sodium_memzero(static_.secret.data(), static_.secret.size());
    sodium_memzero(ephemeral_.secret.data(), ephemeral_.secret.size());
}

Result<void> Handshake::receive(BytesView bytes) {
    EXO_ASSERT(!done());
    append(input_, bytes);
    while (!done() && input_.size() >= length_bytes) {
        std::size_t const length = static_cast<std::size_t>(input_[0]) << 8 | input_[1];
        if (length > handshake_message_bytes_max) {
            return failed(fmt::format("a handshake message of {} bytes", length));
        }
        if (input_.size() < length_bytes + length) {
            return {};
        }
        EXO_TRY(on_message(BytesView(input_).subspan(length_bytes, length)));
        auto const end = static_cast<std::ptrdiff_t>(length_bytes + length);
        input_.erase(input_.begin(), input_.begin() + end);
    }
    return {};
}

Result<void> Handshake::on_message(BytesView message) {
    switch (step_) {
    case Step::read_1:
        EXO_TRY(read_1(message));
        EXO_TRY(write_2());
        step_ = Step::read_3;
        return {};
    case Step::read_2:
        EXO_TRY(read_2(message));
        EXO_TRY(write_3());
        step_ = Step::done;
        return {};
    case Step::read_3:
        EXO_TRY(read_3(message));
        step_ = Step::done;
        return {};
    case Step::done:
        break;
    }
    EXO_ASSERT(false); // receive() stops at the end of the handshake.
    return {};
}

void Handshake::write_1() {
    Bytes message;
    append(message, ephemeral_.public_key);
    symmetric_.mix_hash(ephemeral_.public_key);
    symmetric_.encrypt_and_hash({}, message);
    push_message(message);
}

Result<void> Handshake::read_1(BytesView message) {
    if (message.size() != key_bytes) {
        return failed("the first message is not a key alone");
    }
    peer_ephemeral_ = key_at_front(message);
    symmetric_.mix_hash(peer_ephemeral_);
    symmetric_.mix_hash({}); // Its empty payload.
    return {};
}

Result<void> Handshake::write_2() {
    Bytes message;
    append(message, ephemeral_.public_key);
    symmetric_.mix_hash(ephemeral_.public_key);
    EXO_TRY(mix_shared(ephemeral_.secret, peer_ephemeral_));
    symmetric_.encrypt_and_hash(static_.public_key, message);
    EXO_TRY(mix_shared(static_.secret, peer_ephemeral_));
    symmetric_.encrypt_and_hash(own_payload(), message);
    push_message(message);
    return {};
}

Result<void> Handshake::read_2(BytesView message) {
    if (message.size() < key_bytes + encrypted_key_bytes + tag_bytes) {
        return failed("the second message is too short");
    }
    peer_ephemeral_ = key_at_front(message);
    symmetric_.mix_hash(peer_ephemeral_);
    EXO_TRY(mix_shared(ephemeral_.secret, peer_ephemeral_));
    EXO_TRY(read_static_key(message.subspan(key_bytes, encrypted_key_bytes)));
    EXO_TRY(mix_shared(ephemeral_.secret, peer_static_));
    return read_payload(message.subspan(key_bytes + encrypted_key_bytes));
}

Result<void> Handshake::write_3() {
    Bytes message;
    symmetric_.encrypt_and_hash(static_.public_key, message);
    EXO_TRY(mix_shared(static_.secret, peer_ephemeral_));
    symmetric_.encrypt_and_hash(own_payload(), message);
    push_message(message);
    return {};
}

Result<void> Handshake::read_3(BytesView message) {
    if (message.size() < encrypted_key_bytes + tag_bytes) {
        return failed("the third message is too short");
    }
    EXO_TRY(read_static_key(message.first(encrypted_key_bytes)));
    EXO_TRY(mix_shared(ephemeral_.secret, peer_static_));
    return read_payload(message.subspan(encrypted_key_bytes));
}

void Handshake::push_message(BytesView message) {
    EXO_ASSERT(message.size() <= handshake_message_bytes_max);
    output_.push_back(static_cast<std::uint8_t>(message.size() >> 8));
    output_.push_back(static_cast<std::uint8_t>(message.size()));
    append(output_, message);
}

Result<void> Handshake::mix_shared(Key const& secret, Key const& public_key) {
    Key shared{};
    // It fails for points of low order, with which the result would be known to everyone.
    if (crypto_scalarmult(shared.data(), secret.data(), public_key.data()) != 0) {
        return failed("a key of low order");
    }
    symmetric_.mix_key(shared);
    sodium_memzero(shared.data(), shared.size());
    return {};
}

Result<void> Handshake::read_static_key(BytesView cipher) {
    Bytes plain;
    if (!symmetric_.decrypt_and_hash(cipher, plain)) {
        return failed("the static key is not authentic");
    }
    peer_static_ = key_at_front(plain);
    return {};
}

Result<void> Handshake::read_payload(BytesView cipher) {
    Bytes plain;
    if (!symmetric_.decrypt_and_hash(cipher, plain)) {
        return failed("the payload is not authentic");
    }
    pb::Payload payload;
    if (!payload.ParseFromArray(plain.data(), static_cast<int>(plain.size()))) {
        return failed("the payload is no protobuf");
    }
    auto const key = public_key_from_protobuf(as_bytes(payload.identity_key()));
    if (!key) {
        return failed(key.error().text());
    }
    if (!verify(*key, signed_text(peer_static_), as_bytes(payload.identity_sig()))) {
        return failed("the identity did not sign this connection's key");
    }
    peer_ = PeerId::of(*key);
    if (expected_ && peer_ != *expected_) {
        // Not a fault of the protocol: the address leads to another peer.
        return Error(
            Errc::not_found,
            fmt::format("{} was called, {} answered", expected_->text(), peer_.text())
        );
    }
    return {};
}

Bytes Handshake::own_payload() const {
    auto const key = to_protobuf(identity_.public_key());
    auto const signature = identity_.sign(signed_text(static_.public_key));
    pb::Payload payload;
    payload.set_identity_key(key.data(), key.size());
    payload.set_identity_sig(signature.data(), signature.size());
    auto const text = payload.SerializeAsString();
    return Bytes(text.begin(), text.end());
}

PeerId const& Handshake::peer() const {
    EXO_ASSERT(done());
    return peer_;
}

Transport Handshake::transport() const {
    EXO_ASSERT(done());
    auto [of_initiator, of_responder] = symmetric_.split();
    return side_ == Side::initiator ? Transport(std::move(of_initiator), std::move(of_responder))
                                    : Transport(std::move(of_responder), std::move(of_initiator));
}

Bytes Handshake::take_rest() {
    EXO_ASSERT(done());
    return std::exchange(input_, {});
}

} // namespace exo::net::noise
