// SPDX-License-Identifier: Apache-2.0
#include "net/cluster_token/base32.hpp"

#include "base/assert.hpp"

namespace exo::net {
namespace {

constexpr std::string_view alphabet = "0123456789abcdefghjkmnpqrstvwxyz";
static_assert(alphabet.size() == 32);
constexpr unsigned letter_bits = 5;

std::optional<std::uint32_t> value_of(char letter) {
    if (letter >= 'A' && letter <= 'Z') {
        letter = static_cast<char>(letter - 'A' + 'a');
    }
    if (letter == 'o') {
        letter = '0';
    } else if (letter == 'i' || letter == 'l') {
        letter = '1';
    }
    auto const value = alphabet.find(letter);
    return value == std::string_view::npos ? std::nullopt
                                           : std::optional(static_cast<std::uint32_t>(value));
}

} // namespace

std::string to_base32(BytesView bytes) {
    std::string text;
    std::uint32_t bits = 0; // Those not written yet are the lowest `bits_count`.
    unsigned bits_count = 0;
    for (auto const byte : bytes) {
        bits = bits << 8 | byte;
        bits_count += 8;
        while (bits_count >= letter_bits) {
            bits_count -= letter_bits;
            text.push_back(alphabet[bits >> bits_count & 31]);
        }
    }
    if (bits_count > 0) {
        text.push_back(alphabet[bits << (letter_bits - bits_count) & 31]);
    }
    return text;
}

std::optional<std::size_t> first_bad_base32_letter(std::string_view text) {
    for (std::size_t place = 0; place < text.size(); ++place) {
        if (!value_of(text[place])) {
            return place;
        }
    }
    return std::nullopt;
}

std::optional<Bytes> from_base32(std::string_view text) {
    Bytes bytes;
    std::uint32_t bits = 0;
    unsigned bits_count = 0;
    for (char const letter : text) {
        auto const value = value_of(letter);
        EXO_ASSERT(value.has_value());
        bits = bits << letter_bits | *value;
        bits_count += letter_bits;
        if (bits_count >= 8) {
            bits_count -= 8;
            bytes.push_back(static_cast<std::uint8_t>(bits >> bits_count));
        }
    }
    bool const is_shortest = bits_count < letter_bits;
    bool const rest_is_zero = (bits & ((1U << bits_count) - 1)) == 0;
    return is_shortest && rest_is_zero ? std::optional(std::move(bytes)) : std::nullopt;
}

} // namespace exo::net
