// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.hpp"
#include "base/entropy.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace exo {
namespace {

TEST(Bytes, hex_goes_both_ways) {
    EXPECT_EQ(to_hex(Bytes{0x00, 0xff, 0x1a}), "00ff1a");
    EXPECT_EQ(*from_hex("00 FF1a"), (Bytes{0x00, 0xff, 0x1a}));
    EXPECT_FALSE(from_hex("0"));
    EXPECT_FALSE(from_hex("0 0"));
    EXPECT_FALSE(from_hex("zz"));
}

TEST(Text, sizes_are_read_with_their_units) {
    EXPECT_EQ(*parse_size("1000"), 1000u);
    EXPECT_EQ(*parse_size("2GiB"), 2ull << 30);
    EXPECT_EQ(*parse_size("1.5 kib"), 1536u);
    EXPECT_EQ(*parse_size("3MB"), 3'000'000u);
    for (char const* bad : {"", "GiB", "-1", "2GiBs", "nan", "1e99", "0x10"}) {
        EXPECT_FALSE(parse_size(bad)) << bad;
    }
}

TEST(Text, sizes_are_shown_in_binary_units) {
    EXPECT_EQ(format_size(1023), "1023 B");
    EXPECT_EQ(format_size(1536), "1.5 KiB");
    EXPECT_EQ(format_size(5ull << 30), "5.0 GiB");
}

TEST(Text, a_cut_never_splits_a_character) {
    EXPECT_EQ(utf8_prefix("a\xc3\xa9", 2), "a");
    EXPECT_EQ(utf8_prefix("a\xc3\xa9", 3), "a\xc3\xa9");
    EXPECT_EQ(utf8_prefix("\xf0\x9f\x98\x80", 3), "");
}

TEST(Text, utf8_is_checked_as_rfc_3629_says) {
    EXPECT_TRUE(is_utf8("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80"));
    EXPECT_FALSE(is_utf8("\xc0\xaf"));         // overlong
    EXPECT_FALSE(is_utf8("\xed\xa0\x80"));     // surrogate
    EXPECT_FALSE(is_utf8("\xf4\x90\x80\x80")); // past the last code point
    EXPECT_FALSE(is_utf8("\xc3"));             // cut
}

TEST(Random, the_same_seed_gives_the_same_numbers_everywhere) {
    Random random(0);
    EXPECT_EQ(random.next(), 0xe220a8397b1dcdafu); // The reference implementation's first values.
    EXPECT_EQ(random.next(), 0x6e789e6aa1b965f4u);
}

TEST(Entropy, uuids_have_their_form_and_differ) {
    auto const uuid = random_uuid();
    EXPECT_EQ(uuid.size(), 36u);
    EXPECT_EQ(uuid[14], '4');
    EXPECT_NE(uuid, random_uuid());
}

TEST(Text, a_split_keeps_empty_parts) {
    EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
    EXPECT_EQ(split("", ','), (std::vector<std::string>{""}));
}

TEST(Log, what_a_stranger_says_stays_in_its_line_and_steers_no_terminal) {
    auto const file = std::filesystem::temp_directory_path() / ("exo-log-" + random_uuid());
    log::start(log::Level::info, file.string());
    log::info("net", "it is {}", "rust\n2026-01-01 ERROR net: lost\x1b[2J\x7f!");
    std::ifstream stream(file);
    std::string const text{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_TRUE(text.ends_with("net: it is rust 2026-01-01 ERROR net: lost [2J !\n")) << text;
    std::filesystem::remove(file);
}

} // namespace
} // namespace exo
