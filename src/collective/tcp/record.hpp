// SPDX-License-Identifier: Apache-2.0
//
// Records: what two ranks send each other once they know each other's proof. Pure.
//
//     kind 1 | flags 1 | operation 1 | 0 1 | payload bytes 4 | message bytes 4 | payload | tag 16
//
// A sealed record's payload is encrypted with ChaCha20-Poly1305 (IETF); the 12 bytes before it are
// authenticated with it, and the nonce counts the records of its direction. Only ranks that have
// agreed on it leave records unsealed, and those have no tag.
//
// A message is a `message` record with its total size, then `more` records; records of other kinds
// may come between.
#pragma once

#include "base/bytes.hpp"

#include <array>

namespace exo::collective {

enum class RecordKind : std::uint8_t {
    message = 1, // Starts a message.
    more,        // Goes on with it.
    beat,        // Nothing but a sign of life.
    ended,       // The last record: this rank ends in good order.
    failed,      // The last record: this rank has failed; the payload says why.
    membership,  // While connecting (membership.hpp).
    chosen,      // The dialler uses this connection, of all that it tried.
    ready,       // This rank is connected with all others.
};

// What a message belongs to. Ranks that disagree on it run different programs.
enum class Operation : std::uint8_t { none, send, broadcast, all_reduce, all_gather, barrier };

struct RecordHeader {
    RecordKind kind = RecordKind::beat;
    bool sealed = true;
    Operation operation = Operation::none;
    std::uint32_t payload_bytes = 0;
    std::uint32_t message_bytes = 0; // Of a `message` record: the whole message.

    bool operator==(RecordHeader const&) const = default;
};

constexpr std::size_t record_header_bytes = 12;
constexpr std::size_t record_tag_bytes = 16;
// Small enough that a receiver decrypts what is in its cache while the next one arrives.
constexpr std::size_t record_payload_bytes_max = 64 * 1024;
// A part of a message that is not sealed goes straight to its place: fewer are better. But what a
// socket has not taken of one is copied.
constexpr std::size_t plain_payload_bytes_max = 1024 * 1024;

[[nodiscard]] inline bool is_data(RecordKind kind) {
    return kind == RecordKind::message || kind == RecordKind::more;
}

// How many bytes follow the header.
[[nodiscard]] inline std::size_t body_bytes(RecordHeader const& header) {
    return header.payload_bytes + (header.sealed ? record_tag_bytes : 0);
}

// Error: protocol, for unknown kinds, flags, operations, or sizes beyond the limits.
// REQUIRES: record_header_bytes bytes.
[[nodiscard]] Result<RecordHeader> parse_record_header(BytesView bytes);

using RecordKey = std::array<std::uint8_t, 32>;

// Makes the records of one direction.
class Sealer {
public:
    explicit Sealer(RecordKey const& key)
        : key_(key) {}

    // From now on records are not sealed.
    void leave_plain() { sealed_ = false; }

    // Of a message's records.
    [[nodiscard]] std::size_t payload_bytes_max() const {
        return sealed_ ? record_payload_bytes_max : plain_payload_bytes_max;
    }

    // Appends a record. `header.sealed` and `header.payload_bytes` are set here.
    // REQUIRES: at most record_payload_bytes_max of payload, payload_bytes_max() in a message.
    void seal(RecordHeader header, BytesView payload, Bytes& to);

    // What comes before the payload of a record that is not sealed. REQUIRES: leave_plain().
    [[nodiscard]] std::array<std::uint8_t, record_header_bytes>
    plain_header(RecordHeader header, std::size_t payload_bytes) const;

private:
    RecordKey key_;
    std::uint64_t counter_ = 0;
    bool sealed_ = true;
};

// Opens the records of one direction, in order.
class Opener {
public:
    explicit Opener(RecordKey const& key)
        : key_(key) {}

    void accept_plain() { plain_accepted_ = true; }

    [[nodiscard]] bool accepts_plain() const { return plain_accepted_; }

    // Checks a whole record and writes its payload to `to`. Error: protocol (forged, damaged, out
    // of order, or plain where that was not agreed).
    // REQUIRES: body of body_bytes(header), `to` of header.payload_bytes.
    [[nodiscard]] Result<void> open(
        RecordHeader const& header,
        BytesView header_bytes,
        BytesView body,
        std::span<std::uint8_t> to
    );

private:
    RecordKey key_;
    std::uint64_t counter_ = 0;
    bool plain_accepted_ = false;
};

} // namespace exo::collective
