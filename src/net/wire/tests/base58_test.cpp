// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "net/wire/base58.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace exo::net {
namespace {

struct Row {
    char const* bytes;
    char const* text;
};

class Base58Vectors : public testing::TestWithParam<Row> {};

TEST_P(Base58Vectors, is_the_same_both_ways) {
    auto const bytes = from_hex(GetParam().bytes).value();
    EXPECT_EQ(to_base58(bytes), GetParam().text);
    EXPECT_EQ(from_base58(GetParam().text).value(), bytes);
}

// From draft-msporny-base58, and the ends of the range.
INSTANTIATE_TEST_SUITE_P(
    Draft,
    Base58Vectors,
    testing::Values(
        Row{"", ""},
        Row{"00", "1"},
        Row{"0000", "11"},
        Row{"39", "z"},
        Row{"3a", "21"},
        Row{"48656c6c6f20576f726c6421", "2NEpo7TZRRrLZSi2U"},
        Row{"0000287fb4cd", "11233QC4"}
    )
);

// One digit after the other, as one does by hand: slow, and plain.
std::string plainly(Bytes number) {
    std::string text;
    while (std::ranges::any_of(number, [](auto byte) { return byte != 0; })) {
        unsigned rest = 0;
        for (auto& byte : number) {
            rest = rest * 256 + byte;
            byte = static_cast<std::uint8_t>(rest / 58);
            rest %= 58;
        }
        text.insert(
            text.begin(), "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"[rest]
        );
    }
    return text;
}

TEST(Base58, of_numbers_of_any_length_is_what_division_by_hand_gives) {
    Random random(1);
    for (std::size_t size = 1; size <= 70; ++size) {
        for (int zeros = 0; zeros < 6; ++zeros) {
            Bytes bytes(size);
            for (auto& byte : bytes) {
                byte = static_cast<std::uint8_t>(random.next());
            }
            bytes[0] = static_cast<std::uint8_t>(bytes[0] | 1);
            auto const text = std::string(static_cast<std::size_t>(zeros), '1') + plainly(bytes);
            bytes.insert(bytes.begin(), static_cast<std::size_t>(zeros), 0);
            EXPECT_EQ(to_base58(bytes), text);
            EXPECT_EQ(from_base58(text).value(), bytes) << text;
        }
    }
}

TEST(Base58, letters_that_look_alike_are_refused) {
    for (auto const* const text : {"0", "O", "I", "l", "a b", "\xff"}) {
        EXPECT_EQ(from_base58(text).error().code(), Errc::invalid_argument) << text;
    }
}

TEST(Base58, a_long_text_is_refused_before_any_work) {
    EXPECT_TRUE(from_base58(std::string(base58_text_max, 'z')));
    EXPECT_FALSE(from_base58(std::string(base58_text_max + 1, 'z')));
}

} // namespace
} // namespace exo::net
