// SPDX-License-Identifier: Apache-2.0
#include "net/wire/protobuf.hpp"

namespace exo::net {
namespace {

enum WireType : std::uint8_t { varint = 0, fixed64 = 1, length_delimited = 2, fixed32 = 5 };

constexpr std::uint64_t number_max = (1U << 29) - 1;

Error malformed(char const* why) {
    return {Errc::protocol, std::string("no protobuf message: ") + why};
}

} // namespace

// Longer forms than needed are valid here, unlike in multiformats: up to ten bytes.
Result<std::uint64_t> ProtobufReader::read_varint() {
    constexpr std::size_t bytes_max = 10;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < rest_.size() && i < bytes_max; ++i) {
        value |= static_cast<std::uint64_t>(rest_[i] & 0x7f) << (7 * i);
        if ((rest_[i] & 0x80) == 0) {
            rest_ = rest_.subspan(i + 1);
            return value;
        }
    }
    return malformed(rest_.size() < bytes_max ? "it ends in a number" : "a number is too long");
}

Result<BytesView> ProtobufReader::take(std::uint64_t bytes_count) {
    if (bytes_count > rest_.size()) {
        return malformed("it ends in a field");
    }
    auto const taken = rest_.first(static_cast<std::size_t>(bytes_count));
    rest_ = rest_.subspan(taken.size());
    return taken;
}

Result<std::optional<ProtobufField>> ProtobufReader::next() {
    if (rest_.empty()) {
        return std::optional<ProtobufField>();
    }
    auto const tag = read_varint();
    if (!tag) {
        return tag.error();
    }
    auto const number = *tag >> 3;
    if (number == 0 || number > number_max) {
        return malformed("a field has no valid number");
    }
    ProtobufField field{.number = static_cast<std::uint32_t>(number)};
    Result<BytesView> body = BytesView();
    switch (*tag & 7) {
    case varint:
    case length_delimited: {
        auto const value = read_varint();
        if (!value) {
            return value.error();
        }
        field.value = *value;
        if ((*tag & 7) == length_delimited) {
            field.type = ProtobufField::Type::bytes;
            body = take(*value);
        }
        break;
    }
    case fixed64:
    case fixed32:
        field.type = ProtobufField::Type::fixed;
        body = take((*tag & 7) == fixed64 ? 8 : 4);
        break;
    default:
        return malformed("a field of no known type");
    }
    if (!body) {
        return body.error();
    }
    field.bytes = *body;
    return std::optional(field);
}

} // namespace exo::net
