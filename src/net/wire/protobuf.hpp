// SPDX-License-Identifier: Apache-2.0
//
// Reads a protobuf message field by field, without copies. For messages of strangers that may be
// large: objects of the protobuf library take some thirty times the bytes of a message that is made
// for it (millions of empty entries), while a reader of fields can stop where it has had enough.
// Pure.
#pragma once

#include "base/bytes.hpp"

#include <optional>

namespace exo::net {

struct ProtobufField {
    enum class Type { varint, bytes, fixed };

    std::uint32_t number = 0;
    Type type = Type::varint;
    std::uint64_t value = 0; // Of a varint.
    BytesView bytes;         // Of bytes, texts and messages.

    [[nodiscard]] bool is_bytes(std::uint32_t which) const {
        return number == which && type == Type::bytes;
    }

    [[nodiscard]] bool is_varint(std::uint32_t which) const {
        return number == which && type == Type::varint;
    }
};

class ProtobufReader {
public:
    // `message` must outlive the reader and the fields.
    explicit ProtobufReader(BytesView message)
        : rest_(message) {}

    // Empty at the end. Error: protocol, for what is no protobuf, and for groups, which are no part
    // of it any more.
    [[nodiscard]] Result<std::optional<ProtobufField>> next();

private:
    [[nodiscard]] Result<std::uint64_t> read_varint();
    [[nodiscard]] Result<BytesView> take(std::uint64_t bytes_count);

    BytesView rest_;
};

// Calls `on_field` with each field until one returns an error, which is returned, as are those of
// the reader.
template <class OnField>
[[nodiscard]] Result<void> for_each_field(BytesView message, OnField const& on_field) {
    ProtobufReader reader(message);
    while (true) {
        auto const field = reader.next();
        if (!field) {
            return field.error();
        }
        if (!*field) {
            return {};
        }
        if (Result<void> const result = on_field(**field); !result) {
            return result.error();
        }
    }
}

} // namespace exo::net
