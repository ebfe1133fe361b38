// SPDX-License-Identifier: Apache-2.0
#include "net/cluster_token/base32.hpp"
#include "net/cluster_token/cluster_token.hpp"
#include "net/wire/tests/words.hpp"

#include <gtest/gtest.h>

#include <string>

namespace exo::net {
namespace {

constexpr std::string_view letters = "0123456789abcdefghjkmnpqrstvwxyz";

ClusterToken example() {
    ClusterToken token;
    for (std::size_t i = 0; i < token.secret.size(); ++i) {
        token.secret[i] = static_cast<std::uint8_t>(i * 11 + 1);
    }
    token.addresses = {address("/ip4/192.168.1.20/tcp/24001"), address("/ip6/fd00::20/tcp/24001")};
    return token;
}

// A token of any content, with the right checksum.
std::string with_checksum(Bytes content) {
    std::uint32_t sum = 0xffffffff;
    for (auto const byte : content) {
        sum ^= byte;
        for (int bit = 0; bit < 8; ++bit) {
            sum = (sum & 1) != 0 ? sum >> 1 ^ 0xedb88320 : sum >> 1;
        }
    }
    for (int shift = 24; shift >= 0; shift -= 8) {
        content.push_back(static_cast<std::uint8_t>(~sum >> shift));
    }
    return "exo1-" + to_base32(content);
}

Bytes content(std::string const& after_the_secret) {
    Bytes bytes(32, 7);
    append(bytes, from_hex(after_the_secret).value());
    return bytes;
}

std::string refused(std::string_view text) {
    auto const token = parse_cluster_token(text);
    EXPECT_FALSE(token) << text;
    if (token) {
        return "";
    }
    EXPECT_EQ(token.error().code(), Errc::invalid_argument);
    return token.error().text();
}

bool has(std::string const& text, std::string const& part) {
    return text.find(part) != std::string::npos;
}

// Made by tools of another language: zlib's CRC-32, and base32 by division of a long number.
TEST(ClusterToken, golden) {
    EXPECT_EQ(
        to_text(example()),
        "exo1-0461e8hd711mwpb4dxx8b44vmtrvshyjvqmf7zg92gfjmda09db0"
        "4204r2m02506bq0h8afx0000000000000000000000100sew2q5pqdz0"
    );
}

TEST(ClusterToken, comes_back_as_it_was) {
    EXPECT_EQ(parse_cluster_token(to_text(example())).value(), example());
    ClusterToken const bare{example().secret, {}};
    EXPECT_EQ(parse_cluster_token(to_text(bare)).value(), bare);
}

TEST(ClusterToken, is_a_short_line_for_a_machine_with_two_addresses) {
    EXPECT_LE(to_text(example()).size(), 120u);
}

TEST(ClusterToken, the_longest_fits_the_limit) {
    ClusterToken token;
    // /dns, its length, and 58 letters; /tcp and two bytes of port.
    auto const longest = address("/dns/" + std::string(58, 'n') + "/tcp/65535");
    ASSERT_EQ(longest.bytes().size(), 63u);
    token.addresses.assign(token_addresses_max, longest);
    EXPECT_LE(to_text(token).size(), token_text_max);
    EXPECT_EQ(parse_cluster_token(to_text(token)).value(), token);
}

TEST(ClusterToken, upper_case_and_blanks_of_a_careless_copy_do_not_matter) {
    auto text = to_text(example());
    for (auto& letter : text) {
        letter = static_cast<char>(std::toupper(letter));
    }
    text.insert(40, "\r\n    ");
    EXPECT_EQ(parse_cluster_token("  " + text + "\n").value(), example());
}

TEST(ClusterToken, every_cut_is_refused) {
    auto const text = to_text(example());
    for (std::size_t size = 0; size < text.size(); ++size) {
        auto const why = refused(text.substr(0, size));
        EXPECT_TRUE(has(why, "copy the whole line")) << why;
        if (size >= 5) {
            EXPECT_TRUE(has(why, "cut off")) << why;
        }
    }
}

TEST(ClusterToken, every_cut_at_the_front_is_refused) {
    auto const text = to_text(example());
    for (std::size_t size = 1; size < text.size(); ++size) {
        EXPECT_TRUE(has(refused(text.substr(size)), "must begin with 'exo1-'"));
    }
}

TEST(ClusterToken, every_wrong_letter_is_found) {
    auto const text = to_text(example());
    for (std::size_t place = 5; place < text.size(); ++place) {
        for (char const letter : letters) {
            auto wrong = text;
            wrong[place] = letter;
            if (wrong != text) {
                EXPECT_TRUE(has(refused(wrong), "wrong letter"));
            }
        }
    }
}

TEST(ClusterToken, every_flipped_bit_of_its_text_is_found_or_means_the_same) {
    auto const text = to_text(example());
    for (std::size_t place = 0; place < text.size(); ++place) {
        for (int bit = 0; bit < 8; ++bit) {
            auto wrong = text;
            wrong[place] = static_cast<char>(wrong[place] ^ (1 << bit));
            if (auto const token = parse_cluster_token(wrong)) {
                EXPECT_EQ(*token, example()); // The other case of a letter.
                EXPECT_TRUE(std::isalpha(static_cast<unsigned char>(text[place])));
            }
        }
    }
}

TEST(ClusterToken, swapped_and_doubled_letters_are_found) {
    auto const text = to_text(example());
    for (std::size_t place = 5; place + 1 < text.size(); ++place) {
        auto wrong = text;
        std::swap(wrong[place], wrong[place + 1]);
        if (wrong != text) {
            (void)refused(wrong);
        }
        wrong = text;
        wrong.insert(place, 1, text[place]);
        (void)refused(wrong);
    }
}

TEST(ClusterToken, what_is_no_token_says_what_one_looks_like) {
    for (auto const* const text :
         {"", "hello", "exo1", "exo", "exo12-", "/ip4/10.0.0.1/tcp/4001"}) {
        EXPECT_TRUE(has(refused(text), "must begin with 'exo1-'")) << text;
    }
}

TEST(ClusterToken, another_version_is_named) {
    auto text = to_text(example());
    text[3] = '2';
    auto const why = refused(text);
    EXPECT_TRUE(has(why, "version 2")) << why;
    EXPECT_TRUE(has(why, "same exo on all machines")) << why;
}

TEST(ClusterToken, a_letter_that_none_has_is_named_by_its_place) {
    auto text = to_text(example());
    text[10] = '!';
    EXPECT_TRUE(has(refused(text), "after 10 letters"));
}

TEST(ClusterToken, a_refusal_tells_nothing_of_the_token) {
    auto const text = to_text(example());
    for (std::size_t size = 13; size < text.size(); ++size) {
        EXPECT_FALSE(has(refused(text.substr(0, size)), text.substr(5, 8)));
    }
}

TEST(ClusterToken, a_text_over_the_limit_is_refused_by_its_length) {
    auto const why = refused(std::string(token_text_max + 1, 'a'));
    EXPECT_TRUE(has(why, "1025 letters, and 1024 are allowed")) << why;
}

TEST(ClusterToken, more_addresses_than_allowed_are_refused) {
    std::string eight;
    for (std::size_t i = 0; i < token_addresses_max; ++i) {
        eight += "08 04 0a000001 06 0fa1 ";
    }
    auto const limit = parse_cluster_token(with_checksum(content("08 " + eight)));
    ASSERT_TRUE(limit) << limit.error().text();
    EXPECT_EQ(limit->addresses.size(), token_addresses_max);
    auto const why = refused(with_checksum(content("09 " + eight + "08 04 0a000001 06 0fa1")));
    EXPECT_TRUE(has(why, "has 9 addresses, and 8 are allowed")) << why;
}

TEST(ClusterToken, an_address_that_is_none_or_has_no_port_is_refused) {
    for (auto const* const one :
         {"01 02 ff01",                 // An unknown part.
          "01 05 04 0a000001",          // No port.
          "01 00",                      // Nothing.
          "01 08 04 0a000001 06 0f"}) { // Less than its length says.
        (void)refused(with_checksum(content(one)));
    }
    auto const longest = address("/dns/" + std::string(60, 'n') + "/tcp/1").bytes();
    ASSERT_EQ(longest.size(), token_address_bytes_max + 1);
    EXPECT_TRUE(
        has(refused(with_checksum(content("01 41" + to_hex(longest)))),
            "an address that this exo cannot use")
    );
}

TEST(ClusterToken, bytes_after_the_last_address_are_refused) {
    EXPECT_TRUE(parse_cluster_token(with_checksum(content("00"))));
    EXPECT_TRUE(has(refused(with_checksum(content("00 ff"))), "1 bytes too many"));
}

} // namespace
} // namespace exo::net
