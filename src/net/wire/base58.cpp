// SPDX-License-Identifier: Apache-2.0
#include "net/wire/base58.hpp"

#include "base/assert.hpp"

#include <algorithm>

namespace exo::net {
namespace {

constexpr std::string_view alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
static_assert(alphabet.size() == 58);

// `digits`, a number in base `to_base` with its lowest digit first, becomes
// digits * from_base + digit.
void multiply_add(
    Bytes& digits, std::uint32_t from_base, std::uint32_t digit, std::uint32_t to_base
) {
    std::uint32_t carry = digit;
    for (auto& place : digits) {
        carry += place * from_base;
        place = static_cast<std::uint8_t>(carry % to_base);
        carry /= to_base;
    }
    for (; carry > 0; carry /= to_base) {
        digits.push_back(static_cast<std::uint8_t>(carry % to_base));
    }
}

} // namespace

std::string to_base58(BytesView bytes) {
    auto const value = std::ranges::find_if(bytes, [](std::uint8_t byte) { return byte != 0; });
    std::string text(static_cast<std::size_t>(value - bytes.begin()), alphabet[0]);
    Bytes digits;
    for (auto const byte : bytes) {
        multiply_add(digits, 256, byte, 58);
    }
    for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
        text.push_back(alphabet[*digit]);
    }
    return text;
}

Result<Bytes> from_base58(std::string_view text) {
    if (text.size() > base58_text_max) {
        return Error(
            Errc::invalid_argument,
            "base58 text of " + std::to_string(text.size()) + " letters; at most " +
                std::to_string(base58_text_max) + " are accepted"
        );
    }
    Bytes digits;
    for (char const letter : text) {
        auto const digit = alphabet.find(letter);
        if (digit == std::string_view::npos) {
            return Error(
                Errc::invalid_argument, std::string("'") + letter + "' is no base58 letter"
            );
        }
        multiply_add(digits, 58, static_cast<std::uint32_t>(digit), 256);
    }
    Bytes bytes(std::min(text.find_first_not_of(alphabet[0]), text.size()), 0);
    bytes.insert(bytes.end(), digits.rbegin(), digits.rend());
    return bytes;
}

} // namespace exo::net
