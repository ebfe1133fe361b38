// SPDX-License-Identifier: Apache-2.0
//
// One published message of gossipsub and its signature (StrictSign, specs/libp2p.md 9). Pure.
//
// The signature covers "libp2p-pubsub:" and the protobuf of fields 1 to 4 in that order. The id of
// a message is rust's: author in base58, then the sequence number in decimal.
#pragma once

#include "base/bytes.hpp"
#include "net/crypto/identity.hpp"
#include "net/wire/peer_id.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace exo::net::gossipsub {

using MessageId = std::string;

// A message that is known to be valid, and its encoding as it goes into an RPC.
struct SignedMessage {
    MessageId id;
    std::string topic;
    PeerId author;
    Bytes data;
    // Shared by the queues of all peers and the message cache.
    std::shared_ptr<Bytes const> encoded;
};

[[nodiscard]] MessageId message_id(PeerId const& author, std::uint64_t sequence_number);

[[nodiscard]] SignedMessage sign_message(
    Identity const& identity,
    std::uint64_t sequence_number,
    std::string const& topic,
    BytesView data
);

// What can be told of a message before its signature is checked (which costs more): views into the
// bytes that it was read from, which must outlive it. Most messages come more than once, and are
// not looked at any further.
struct UnverifiedMessage {
    MessageId id;
    PeerId author;
    std::string_view topic;
    std::optional<BytesView> data;
    BytesView sequence_number; // Empty or 8 bytes.
    BytesView signature;
    std::optional<BytesView> key; // Of the author, a protobuf; where it is not in the author's id.
    BytesView encoded;            // All of it.
};

// `bytes` is the protobuf Message. Errors: protocol, saying which rule of strict mode it breaks.
[[nodiscard]] Result<UnverifiedMessage> parse_message(BytesView bytes);

// Error: protocol, when the key or the signature is not the author's.
[[nodiscard]] Result<SignedMessage> verify_message(UnverifiedMessage const& message);

} // namespace exo::net::gossipsub
