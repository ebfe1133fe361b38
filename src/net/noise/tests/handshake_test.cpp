// SPDX-License-Identifier: Apache-2.0
#include "net/crypto/sodium.hpp"
#include "net/noise/handshake.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sodium.h>

#include <algorithm>
#include <fstream>

namespace exo::net::noise {
namespace {

using Json = nlohmann::json;

template <class Array>
Array repeated(std::uint8_t value) {
    Array array;
    array.fill(value);
    return array;
}

Bytes hex(std::string_view text) {
    return from_hex(text).value();
}

// The keys of the transcript in rust.json (specs/libp2p.md 13).
Identity const& initiator_identity() {
    static auto const identity = Identity::from_seed(repeated<Seed>(0x01));
    return identity;
}

Identity const& responder_identity() {
    static auto const identity = Identity::from_seed(repeated<Seed>(0x02));
    return identity;
}

Secrets const initiator_secrets{repeated<Key>(0x11), repeated<Key>(0x12)};
Secrets const responder_secrets{repeated<Key>(0x21), repeated<Key>(0x22)};

struct Pair {
    Handshake initiator{Side::initiator, initiator_identity(), initiator_secrets, std::nullopt};
    Handshake responder{Side::responder, responder_identity(), responder_secrets, std::nullopt};
};

Json transcript() {
    std::ifstream file(EXO_SOURCE_DIR "/testdata/libp2p/rust.json");
    return Json::parse(file).at("noise_transcript");
}

Bytes with_length(BytesView message) {
    Bytes framed{
        static_cast<std::uint8_t>(message.size() >> 8), static_cast<std::uint8_t>(message.size())
    };
    append(framed, message);
    return framed;
}

Bytes message_of(Json const& vector, std::size_t index) {
    return with_length(hex(vector.at("messages_without_length_prefix").at(index).get<std::string>())
    );
}

// Feeds `bytes` in pieces of `size` until the handshake is done; returns what is left over.
Result<Bytes> feed(Handshake& side, BytesView bytes, std::size_t size) {
    while (!bytes.empty() && !side.done()) {
        auto const piece = bytes.first(std::min(size, bytes.size()));
        bytes = bytes.subspan(piece.size());
        if (auto const result = side.receive(piece); !result) {
            return result.error();
        }
    }
    Bytes rest = side.done() ? side.take_rest() : Bytes{};
    append(rest, bytes);
    return rest;
}

Result<void> run(Pair& pair) {
    EXO_TRY(pair.responder.receive(pair.initiator.take_output()));
    EXO_TRY(pair.initiator.receive(pair.responder.take_output()));
    return pair.responder.receive(pair.initiator.take_output());
}

TEST(NoiseHandshake, is_the_transcript_of_rust_byte_for_byte) {
    auto const vector = transcript();
    Pair pair;
    auto const first = pair.initiator.take_output();
    EXPECT_EQ(first, message_of(vector, 0));
    ASSERT_TRUE(pair.responder.receive(first));
    auto const second = pair.responder.take_output();
    EXPECT_EQ(second, message_of(vector, 1));
    ASSERT_TRUE(pair.initiator.receive(second));
    auto const third = pair.initiator.take_output();
    EXPECT_EQ(third, message_of(vector, 2));
    ASSERT_TRUE(pair.responder.receive(third));
    EXPECT_EQ(pair.initiator.peer(), responder_identity().peer_id());
    EXPECT_EQ(pair.responder.peer(), initiator_identity().peer_id());
    EXPECT_EQ(to_hex(pair.initiator.hash()), vector.at("handshake_hash").get<std::string>());
    EXPECT_EQ(pair.initiator.hash(), pair.responder.hash());
}

TEST(NoiseTransport, is_the_transcript_of_rust_byte_for_byte) {
    Pair pair;
    ASSERT_TRUE(run(pair));
    auto initiator = pair.initiator.transport();
    auto responder = pair.responder.transport();
    auto const vector = transcript();
    for (auto const& message : vector.at("transport")) {
        bool const from_initiator = message.at("from") == "initiator";
        auto& sender = from_initiator ? initiator : responder;
        auto& receiver = from_initiator ? responder : initiator;
        Bytes cipher;
        sender.encrypt(hex(message.at("plain").get<std::string>()), cipher);
        EXPECT_EQ(cipher, with_length(hex(message.at("cipher").get<std::string>())));
        Bytes plain;
        ASSERT_TRUE(receiver.decrypt(cipher, plain));
        EXPECT_EQ(to_hex(plain), message.at("plain").get<std::string>());
    }
}

TEST(NoiseHandshake, any_cut_succeeds_and_keeps_the_bytes_behind_it) {
    auto const vector = transcript();
    auto second = message_of(vector, 1);
    append(second, as_bytes("behind"));
    auto third = message_of(vector, 2);
    append(third, as_bytes("behind"));
    for (std::size_t size = 1; size <= second.size(); ++size) {
        Pair pair;
        auto const after_second = feed(pair.initiator, second, size);
        ASSERT_TRUE(after_second) << "pieces of " << size;
        EXPECT_EQ(as_text(*after_second), "behind") << "pieces of " << size;
        ASSERT_TRUE(feed(pair.responder, message_of(vector, 0), size));
        auto const after_third = feed(pair.responder, third, size);
        ASSERT_TRUE(after_third) << "pieces of " << size;
        EXPECT_EQ(as_text(*after_third), "behind") << "pieces of " << size;
    }
}

TEST(NoiseHandshake, any_changed_byte_is_noticed) {
    auto const vector = transcript();
    for (std::size_t at = 2; at < message_of(vector, 1).size(); ++at) {
        Pair pair;
        auto second = message_of(vector, 1);
        second[at] ^= 0x40;
        EXPECT_EQ(pair.initiator.receive(second).error().code(), Errc::protocol) << at;
    }
    for (std::size_t at = 2; at < message_of(vector, 2).size(); ++at) {
        Pair pair;
        ASSERT_TRUE(pair.responder.receive(message_of(vector, 0)));
        auto third = message_of(vector, 2);
        third[at] ^= 0x40;
        EXPECT_EQ(pair.responder.receive(third).error().code(), Errc::protocol) << at;
    }
}

TEST(NoiseHandshake, messages_of_a_wrong_length_are_refused) {
    Pair pair;
    EXPECT_FALSE(pair.responder.receive(with_length(Bytes(31, 1))));
    EXPECT_FALSE(Pair().responder.receive(with_length(Bytes(33, 1)))); // A payload in message 1.
    EXPECT_FALSE(Pair().initiator.receive(with_length(Bytes(32 + 48 + 15, 1))));
    EXPECT_FALSE(Pair().responder.receive(hex("1001"))); // 4097 bytes: over the limit, at once.
    ASSERT_TRUE(Pair().responder.receive(hex("1000")));
}

// With this point every shared secret is zero, known to anyone.
TEST(NoiseHandshake, a_key_of_low_order_is_refused) {
    Pair pair;
    auto const result = pair.responder.receive(with_length(Bytes(32, 0)));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().text(), "noise: a key of low order");
}

TEST(NoiseHandshake, another_peer_than_the_one_called_is_refused) {
    Handshake initiator(
        Side::initiator, initiator_identity(), initiator_secrets, initiator_identity().peer_id()
    );
    Pair pair;
    ASSERT_TRUE(pair.responder.receive(initiator.take_output()));
    auto const result = initiator.receive(pair.responder.take_output());
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code(), Errc::not_found);
    EXPECT_NE(result.error().text().find("answered"), std::string::npos);
    EXPECT_FALSE(initiator.done());
}

// The second message as the Noise framework makes it, around any payload. Its keys are those of
// `responder_secrets`.
Bytes second_message(BytesView first, BytesView payload) {
    ensure_sodium();
    auto const public_of = [](Key const& secret) {
        Key key{};
        EXPECT_EQ(crypto_scalarmult_base(key.data(), secret.data()), 0);
        return key;
    };
    Key peer{};
    std::ranges::copy(first.subspan(2, 32), peer.begin());
    auto const shared = [&](Key const& secret) {
        Key key{};
        EXPECT_EQ(crypto_scalarmult(key.data(), secret.data(), peer.data()), 0);
        return key;
    };
    SymmetricState state;
    state.mix_hash(peer);
    state.mix_hash({});
    auto const ephemeral = public_of(responder_secrets.ephemeral_key);
    Bytes message(ephemeral.begin(), ephemeral.end());
    state.mix_hash(ephemeral);
    state.mix_key(shared(responder_secrets.ephemeral_key));
    state.encrypt_and_hash(public_of(responder_secrets.static_key), message);
    state.mix_key(shared(responder_secrets.static_key));
    state.encrypt_and_hash(payload, message);
    return with_length(message);
}

Result<void> answer_with(std::string_view payload_hex) {
    Pair pair;
    return pair.initiator.receive(second_message(pair.initiator.take_output(), hex(payload_hex)));
}

TEST(NoisePayload, that_of_rust_is_accepted) {
    auto const payload = transcript().at("responder").at("payload").get<std::string>();
    EXPECT_TRUE(answer_with(payload));
    EXPECT_TRUE(answer_with(payload + "220e120c2f79616d75782f312e302e30")); // Extensions, as js.
    EXPECT_TRUE(answer_with(payload + "7a0474657374"));                     // Something unknown.
}

TEST(NoisePayload, the_signature_must_be_of_this_identity_over_this_key) {
    auto const payload = transcript().at("responder").at("payload").get<std::string>();
    // The initiator's payload: a good signature, but of another static key.
    EXPECT_FALSE(answer_with(transcript().at("initiator").at("payload").get<std::string>()));
    EXPECT_FALSE(answer_with(payload.substr(0, 76)));                        // No signature.
    EXPECT_FALSE(answer_with(payload.substr(76)));                           // No identity.
    EXPECT_FALSE(answer_with(payload.substr(0, payload.size() - 2) + "00")); // Its last byte.
    EXPECT_FALSE(answer_with(""));
    EXPECT_FALSE(answer_with("ffff"));
    EXPECT_FALSE(answer_with("0a24080012208139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5"
                             "b8fc9b394")); // RSA, it says.
}

TEST(NoiseTransport, any_cut_and_any_size_arrives) {
    Pair pair;
    ASSERT_TRUE(run(pair));
    auto sender = pair.initiator.transport();
    auto receiver = pair.responder.transport();
    Bytes plain(3 * plain_bytes_max + 5);
    for (std::size_t i = 0; i < plain.size(); ++i) {
        plain[i] = static_cast<std::uint8_t>(i * 7);
    }
    Bytes cipher;
    sender.encrypt(plain, cipher);
    EXPECT_EQ(cipher.size(), plain.size() + 4 * (2 + tag_bytes));
    EXPECT_EQ(to_hex(BytesView(cipher).first(2)), "ffff");
    Bytes received;
    std::size_t at = 0;
    for (std::size_t size = 1; at < cipher.size(); size = size * 2 % 50'001 + 1) {
        auto const length = std::min(size, cipher.size() - at);
        ASSERT_TRUE(receiver.decrypt(BytesView(cipher).subspan(at, length), received));
        at += length;
    }
    EXPECT_EQ(received, plain);
}

// rust and js send none, but nothing forbids them; 65535 is the largest length there is.
TEST(NoiseTransport, messages_of_any_length_up_to_the_largest_are_taken) {
    CipherState peer(repeated<Key>(5));
    Transport receiver(CipherState(repeated<Key>(6)), CipherState(repeated<Key>(5)));
    for (std::size_t const size : {0UL, 1UL, 64511UL, plain_bytes_max, 0UL}) {
        Bytes const sent(size, 7);
        Bytes cipher;
        peer.encrypt({}, sent, cipher);
        Bytes plain;
        ASSERT_TRUE(receiver.decrypt(with_length(cipher), plain)) << size;
        EXPECT_EQ(plain, sent);
    }
}

TEST(NoiseTransport, nothing_costs_nothing) {
    Pair pair;
    ASSERT_TRUE(run(pair));
    auto sender = pair.initiator.transport();
    Bytes cipher;
    sender.encrypt({}, cipher);
    EXPECT_TRUE(cipher.empty());
}

TEST(NoiseTransport, changed_repeated_and_short_messages_are_refused) {
    Pair pair;
    ASSERT_TRUE(run(pair));
    auto sender = pair.initiator.transport();
    Bytes cipher;
    sender.encrypt(as_bytes("hello"), cipher);
    for (std::size_t at = 2; at < cipher.size(); ++at) {
        auto changed = cipher;
        changed[at] ^= 1;
        Bytes plain;
        auto receiver = pair.responder.transport();
        EXPECT_EQ(receiver.decrypt(changed, plain).error().code(), Errc::protocol) << at;
        EXPECT_TRUE(plain.empty());
    }
    Bytes plain;
    auto receiver = pair.responder.transport();
    ASSERT_TRUE(receiver.decrypt(cipher, plain));
    EXPECT_FALSE(receiver.decrypt(cipher, plain)); // Its counter has gone on.
    EXPECT_FALSE(
        pair.responder.transport().decrypt(hex("000f000000000000000000000000000000"), plain)
    );
}

} // namespace
} // namespace exo::net::noise
