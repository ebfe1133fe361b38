// SPDX-License-Identifier: Apache-2.0
#include "net/wire/varint.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

Bytes hex(std::string_view text) {
    return from_hex(text).value();
}

struct Row {
    std::uint64_t value;
    char const* encoded;
};

class VarintVectors : public testing::TestWithParam<Row> {};

TEST_P(VarintVectors, is_written_and_read_as_the_specification_says) {
    Bytes encoded;
    append_varint(encoded, GetParam().value);
    EXPECT_EQ(to_hex(encoded), GetParam().encoded);
    auto const read = read_varint(encoded);
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, (Varint{GetParam().value, encoded.size()}));
}

TEST_P(VarintVectors, every_prefix_asks_for_more) {
    auto const encoded = hex(GetParam().encoded);
    for (std::size_t length = 0; length < encoded.size(); ++length) {
        auto const read = read_varint(BytesView(encoded).first(length));
        ASSERT_TRUE(read);
        EXPECT_FALSE(*read);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Specification,
    VarintVectors,
    testing::Values(
        Row{0, "00"},
        Row{1, "01"},
        Row{127, "7f"},
        Row{128, "8001"},
        Row{255, "ff01"},
        Row{300, "ac02"},
        Row{16384, "808001"},
        Row{varint_max, "ffffffffffffffff7f"}
    )
);

TEST(Varint, bytes_behind_it_are_not_its_own) {
    EXPECT_EQ(**read_varint(hex("05ffff")), (Varint{5, 1}));
}

TEST(Varint, a_longer_form_than_needed_is_refused) {
    EXPECT_EQ(read_varint(hex("8000")).error().code(), Errc::protocol);
    EXPECT_EQ(read_varint(hex("818000")).error().code(), Errc::protocol);
}

TEST(Varint, more_than_nine_bytes_are_refused) {
    EXPECT_EQ(read_varint(hex("80808080808080808001")).error().code(), Errc::protocol);
    EXPECT_EQ(read_varint(hex("808080808080808080")).error().code(), Errc::protocol);
}

TEST(Varint, a_value_over_the_limit_is_refused_as_soon_as_it_shows) {
    EXPECT_TRUE(read_varint(hex("8008"), 1024));
    EXPECT_EQ(read_varint(hex("8108"), 1024).error().code(), Errc::protocol);
    EXPECT_EQ(read_varint(hex("ffff"), 1024).error().code(), Errc::protocol);
}

} // namespace
} // namespace exo::net
