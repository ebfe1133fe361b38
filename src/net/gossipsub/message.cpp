// SPDX-License-Identifier: Apache-2.0
#include "net/gossipsub/message.hpp"

#include "net/wire/protobuf.hpp"
#include "net/wire/varint.hpp"

#include <fmt/core.h>

namespace exo::net::gossipsub {
namespace {

constexpr std::string_view signature_prefix = "libp2p-pubsub:";
constexpr std::size_t sequence_number_bytes = 8;

enum Field : std::uint8_t {
    from = 1,
    data = 2,
    sequence_number = 3,
    topic = 4,
    signature = 5,
    key = 6
};

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
    constexpr std::size_t overhead = 128; // The other fields, but for a long topic.
    Bytes bytes;
    bytes.reserve(overhead + message.data.value_or(BytesView()).size());
    append(bytes, as_bytes(signature_prefix));
    append_field(bytes, Field::from, message.author.bytes());
    if (message.data) {
        append_field(bytes, Field::data, *message.data);
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

// The author's key: within its id, or beside it, where it must belong to the id.
Result<PublicKey> key_of(UnverifiedMessage const& message) {
    if (!message.key) {
        auto const key = message.author.public_key();
        if (!key) {
            return malformed("no key, and none in the author's id");
        }
        return *key;
    }
    auto const key = public_key_from_protobuf(*message.key);
    if (!key) {
        return malformed(std::string(key.error().text()));
    }
    if (PeerId::of(*key) != message.author) {
        return malformed("its key is not the author's");
    }
    return *key;
}

// The fields as they are, not judged.
struct Fields {
    BytesView from;
    std::optional<BytesView> data;
    std::optional<BytesView> sequence_number;
    std::optional<BytesView> topic;
    std::optional<BytesView> signature;
    std::optional<BytesView> key;
};

Result<Fields> fields_of(BytesView bytes) {
    Fields fields;
    EXO_TRY(for_each_field(bytes, [&](ProtobufField const& field) -> Result<void> {
        if (field.is_bytes(Field::from)) {
            fields.from = field.bytes;
        } else if (field.is_bytes(Field::data)) {
            fields.data = field.bytes;
        } else if (field.is_bytes(Field::sequence_number)) {
            fields.sequence_number = field.bytes;
        } else if (field.is_bytes(Field::topic)) {
            fields.topic = field.bytes;
        } else if (field.is_bytes(Field::signature)) {
            fields.signature = field.bytes;
        } else if (field.is_bytes(Field::key)) {
            fields.key = field.bytes;
        }
        return {};
    }));
    return fields;
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
    auto const number = big_endian(sequence_number);
    auto encoded = signed_bytes(UnverifiedMessage{
        .author = identity.peer_id(),
        .topic = topic,
        .data = data, // Present even when empty (specs/libp2p.md 9).
        .sequence_number = number,
    });
    auto const signature = identity.sign(encoded);
    encoded.erase(encoded.begin(), encoded.begin() + signature_prefix.size());
    append_field(encoded, Field::signature, signature);
    return {
        .id = message_id(identity.peer_id(), sequence_number),
        .topic = topic,
        .author = identity.peer_id(),
        .data = {data.begin(), data.end()},
        .encoded = std::make_shared<Bytes const>(std::move(encoded)),
    };
}

Result<UnverifiedMessage> parse_message(BytesView bytes) {
    auto const fields = fields_of(bytes);
    if (!fields) {
        return malformed("not a message");
    }
    auto author = PeerId::from_bytes(fields->from);
    if (!author) {
        return malformed("its author is no peer id");
    }
    if (!fields->topic) {
        return malformed("no topic");
    }
    auto const number = fields->sequence_number.value_or(BytesView());
    if (!fields->sequence_number || (!number.empty() && number.size() != sequence_number_bytes)) {
        return malformed(fmt::format("a sequence number of {} bytes, not 8", number.size()));
    }
    if (!fields->signature) {
        return malformed("not signed");
    }
    return UnverifiedMessage{
        .id = message_id(*author, from_big_endian(number)),
        .author = std::move(*author),
        .topic = as_text(*fields->topic),
        .data = fields->data,
        .sequence_number = number,
        .signature = *fields->signature,
        .key = fields->key,
        .encoded = bytes,
    };
}

Result<SignedMessage> verify_message(UnverifiedMessage const& message) {
    auto const author_key = key_of(message);
    if (!author_key) {
        return author_key.error();
    }
    if (!verify(*author_key, signed_bytes(message), message.signature)) {
        return malformed("the signature is not its author's");
    }
    auto const data = message.data.value_or(BytesView());
    return SignedMessage{
        .id = message.id,
        .topic = std::string(message.topic),
        .author = message.author,
        .data = {data.begin(), data.end()},
        .encoded = std::make_shared<Bytes const>(message.encoded.begin(), message.encoded.end()),
    };
}

} // namespace exo::net::gossipsub
