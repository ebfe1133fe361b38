// SPDX-License-Identifier: Apache-2.0
//
// All types of fields, in bytes written by hand after the encoding guide of protobuf.
#include "net/wire/protobuf.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace exo::net {
namespace {

Bytes hex(char const* text) {
    return from_hex(text).value();
}

// How each field reads: "number=value" or "number:bytes"; at the end, an error if there is one.
std::vector<std::string> fields_of(Bytes const& message) {
    std::vector<std::string> fields;
    auto const result = for_each_field(message, [&](ProtobufField const& field) -> Result<void> {
        auto const number = std::to_string(field.number);
        if (field.type == ProtobufField::Type::varint) {
            fields.push_back(number + "=" + std::to_string(field.value));
        } else {
            fields.push_back(number + ":" + to_hex(field.bytes));
        }
        return {};
    });
    if (!result) {
        EXPECT_EQ(result.error().code(), Errc::protocol);
        fields.push_back("error");
    }
    return fields;
}

using Fields = std::vector<std::string>;

TEST(Protobuf, fields_of_all_types_are_read_in_order) {
    EXPECT_EQ(fields_of({}), Fields{});
    EXPECT_EQ(fields_of(hex("089601")), Fields{"1=150"});
    EXPECT_EQ(fields_of(hex("0a00 1202 0102 0801")), (Fields{"1:", "2:0102", "1=1"}));
    EXPECT_EQ(
        fields_of(hex("0901020304050607080d01020304")), (Fields{"1:0102030405060708", "1:01020304"})
    );
    EXPECT_EQ(fields_of(hex("f8ffffff0f05")), Fields{"536870911=5"});
}

TEST(Protobuf, numbers_may_be_longer_than_needed_but_not_than_ten_bytes) {
    EXPECT_EQ(fields_of(hex("08 80808000")), Fields{"1=0"});
    EXPECT_EQ(fields_of(hex("08 ffffffffffffffffff01")), Fields{"1=18446744073709551615"});
    EXPECT_EQ(fields_of(hex("08 ffffffffffffffffffff01")), Fields{"error"});
}

TEST(Protobuf, a_message_cut_anywhere_within_a_field_is_refused) {
    auto const whole = hex("0a03010203 10ac02 1901020304050607080d01020304");
    std::vector<std::size_t> good;
    for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
        auto const fields =
            fields_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut)});
        if (fields.empty() || fields.back() != "error") {
            good.push_back(cut);
        }
    }
    EXPECT_EQ(good, (std::vector<std::size_t>{0, 5, 8, 17, 22}));
}

TEST(Protobuf, groups_unknown_types_and_impossible_numbers_and_lengths_are_refused) {
    for (auto const* const text : {
             "0b0c",                   // A group.
             "0e",                     // Type 6.
             "0000",                   // Field 0.
             "8080808010 00",          // Field 2^29.
             "0affffffffffffffffff01", // 2^64 - 1 bytes.
             "0a02ff",                 // One byte too few.
         }) {
        EXPECT_EQ(fields_of(hex(text)), Fields{"error"}) << text;
    }
}

TEST(Protobuf, whoever_has_had_enough_ends_the_reading) {
    int count = 0;
    auto const result = for_each_field(hex("08010801"), [&](ProtobufField const&) -> Result<void> {
        ++count;
        return Error(Errc::limit, "enough");
    });
    EXPECT_EQ(result.error().code(), Errc::limit);
    EXPECT_EQ(count, 1);
}

} // namespace
} // namespace exo::net
