// SPDX-License-Identifier: Apache-2.0
#include "net/gossipsub/message.hpp"

#include "net/gossipsub/rpc.pb.h"
#include "net/wire/varint.hpp"

#include <fmt/core.h>

#include <limits>

namespace exo::net::gossipsub {
namespace {

constexpr std::string_view signature_prefix = "libp2p-pubsub:";
constexpr std::size_t sequence_number_bytes = 8;

enum Field : std::uint8_t { from = 1, data = 2, sequence_number = 3, topic = 4 };

Error malformed(std::string const& why) {
    return {Errc::protocol, "gossip message refused: " + why};
}

void append_field(Bytes& to, Field field, BytesView value) {
    to.push_back(static_cast<std::uint8_t>(field << 3 | 2));
    append_varint(to, value.size());
    append(to, value);
}

// Written by hand, for it must be these bytes exactly, whatever a protobuf library prefers.
Bytes signed_bytes(UnverifiedMessage const& message) {
    Bytes bytes;
    append(bytes, as_bytes(signature_prefix));
    append_field(bytes, Field::from, message.author.bytes());
    if (message.has_data) {
        append_field(bytes, Field::data, message.data);
    }
    append_field(bytes, Field::sequence_number, message.sequence_number);
    append_field(bytes, Field::topic, as_bytes(message.topic));
    return bytes;
}

Bytes big_endian(std::uint64_t value) {
    Bytes bytes(sequence_number_bytes);
    for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte, value >>= 8) {
        *byte = static_cast<std::uint8_t>(value);
    }
    return bytes;
}

// An empty one counts as 0, as in rust.
std::uint64_t from_big_endian(BytesView bytes) {
    std::uint64_t value = 0;
    for (auto const byte : bytes) {
        value = value << 8 | byte;
    }
    return value;
}

Bytes bytes_of(std::string const& text) {
    return {text.begin(), text.end()};
}

// The author's key: within its id, or beside it, where it must belong to the id.
Result<PublicKey> key_of(PeerId const& author, pb::Message const& message) {
    if (!message.has_key()) {
        auto const key = author.public_key();
        if (!key) {
            return malformed("no key, and none in the author's id");
        }
        return *key;
    }
    auto const key = public_key_from_protobuf(as_bytes(message.key()));
    if (!key) {
        return malformed(key.error().text());
    }
    if (PeerId::of(*key) != author) {
        return malformed("its key is not the author's");
    }
    return *key;
}

} // namespace

MessageId message_id(PeerId const& author, std::uint64_t sequence_number) {
    return author.text() + std::to_string(sequence_number);
}

SignedMessage sign_message(
    Identity const& identity,
    std::uint64_t sequence_number,
    std::string const& topic,
    BytesView data
) {
    UnverifiedMessage unsigned_message;
    unsigned_message.topic = topic;
    unsigned_message.author = identity.peer_id();
    unsigned_message.has_data = true; // Present even when empty (specs/libp2p.md 9).
    unsigned_message.data = {data.begin(), data.end()};
    unsigned_message.sequence_number = big_endian(sequence_number);
    auto encoded = signed_bytes(unsigned_message);
    auto const signature = identity.sign(encoded);
    encoded.erase(encoded.begin(), encoded.begin() + signature_prefix.size());
    constexpr std::uint8_t signature_tag = 5 << 3 | 2;
    encoded.push_back(signature_tag);
    append_varint(encoded, signature.size());
    append(encoded, signature);
    return {
        .id = message_id(identity.peer_id(), sequence_number),
        .topic = topic,
        .author = identity.peer_id(),
        .data = std::move(unsigned_message.data),
        .encoded = std::make_shared<Bytes const>(std::move(encoded)),
    };
}

Result<UnverifiedMessage> parse_message(BytesView bytes) {
    pb::Message message;
    if (bytes.size() > std::numeric_limits<int>::max() ||
        !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
        return malformed("not a message");
    }
    auto const author = PeerId::from_bytes(as_bytes(message.from()));
    if (!author) {
        return malformed("its author is no peer id");
    }
    if (!message.has_topic()) {
        return malformed("no topic");
    }
    auto const& number = message.seqno();
    if (!message.has_seqno() || (!number.empty() && number.size() != sequence_number_bytes)) {
        return malformed(fmt::format("a sequence number of {} bytes, not 8", number.size()));
    }
    if (!message.has_signature()) {
        return malformed("not signed");
    }
    auto const key = key_of(*author, message);
    if (!key) {
        return key.error();
    }
    return UnverifiedMessage{
        .id = message_id(*author, from_big_endian(as_bytes(number))),
        .topic = message.topic(),
        .author = *author,
        .key = *key,
        .has_data = message.has_data(),
        .data = bytes_of(message.data()),
        .sequence_number = bytes_of(number),
        .signature = bytes_of(message.signature()),
        .encoded = {bytes.begin(), bytes.end()},
    };
}

Result<SignedMessage> verify_message(UnverifiedMessage message) {
    if (!verify(message.key, signed_bytes(message), message.signature)) {
        return malformed("the signature is not its author's");
    }
    return SignedMessage{
        .id = std::move(message.id),
        .topic = std::move(message.topic),
        .author = message.author,
        .data = std::move(message.data),
        .encoded = std::make_shared<Bytes const>(std::move(message.encoded)),
    };
}

} // namespace exo::net::gossipsub
