// SPDX-License-Identifier: Apache-2.0
#include "net/cluster_token/base32.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

TEST(Base32, known_texts) {
    EXPECT_EQ(to_base32({}), "");
    EXPECT_EQ(to_base32(from_hex("00").value()), "00");
    EXPECT_EQ(to_base32(from_hex("ff").value()), "zw");
    EXPECT_EQ(
        to_base32(as_bytes("foobar")), "csqpyrk1e8"
    ); // RFC 4648's MZXW6YTBOI in this alphabet.
}

TEST(Base32, every_length_comes_back) {
    Bytes bytes;
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(from_base32(to_base32(bytes)), bytes);
        bytes.push_back(static_cast<std::uint8_t>(i * 37 + 5));
    }
}

TEST(Base32, case_does_not_matter_and_letters_that_look_like_digits_are_those) {
    EXPECT_EQ(from_base32("CSQPYRK1E8"), from_base32("csqpyrk1e8"));
    EXPECT_EQ(from_base32("o0Ol1iIL"), from_base32("00011111"));
}

TEST(Base32, a_bad_letter_is_found_at_its_place) {
    EXPECT_EQ(first_bad_base32_letter("0123456789abcdefghijklmnopqrstvwxyz"), std::nullopt);
    EXPECT_EQ(first_bad_base32_letter("abu"), 2u);
    EXPECT_EQ(first_bad_base32_letter("-"), 0u);
    EXPECT_EQ(first_bad_base32_letter("a\xc3\xa9"), 1u);
}

TEST(Base32, there_is_one_text_for_some_bytes) {
    EXPECT_TRUE(from_base32("zw"));
    EXPECT_FALSE(from_base32("zx"));  // A bit after the last byte.
    EXPECT_FALSE(from_base32("z"));   // No whole byte.
    EXPECT_FALSE(from_base32("zw0")); // A letter that says nothing.
}

} // namespace
} // namespace exo::net
