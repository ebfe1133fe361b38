// SPDX-License-Identifier: Apache-2.0
#include "net/wire/base58.hpp"

#include "base/assert.hpp"

#include <algorithm>
#include <array>

namespace exo::net {
namespace {

constexpr std::string_view alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
static_assert(alphabet.size() == 58);

// A number, its lowest limb first. Limbs of four bytes or five letters instead of single ones: the
// id of every gossip message has its author in base58.
using Limbs = std::vector<std::uint32_t>;
constexpr std::size_t bytes_per_limb = 4;
constexpr std::uint64_t base_of_bytes = std::uint64_t{1} << 32;
constexpr std::size_t letters_per_limb = 5;
constexpr std::uint64_t base_of_letters = 58ULL * 58 * 58 * 58 * 58;

// `limbs` in base `to_base` becomes limbs * from_base + limb.
void multiply_add(
    Limbs& limbs, std::uint64_t from_base, std::uint64_t limb, std::uint64_t to_base
) {
    std::uint64_t carry = limb;
    for (auto& place : limbs) {
        carry += place * from_base;
        place = static_cast<std::uint32_t>(carry % to_base);
        carry /= to_base;
    }
    for (; carry > 0; carry /= to_base) {
        limbs.push_back(static_cast<std::uint32_t>(carry % to_base));
    }
}

// All limbs but the first of a text or of bytes are full.
std::size_t first_limb_size(std::size_t size, std::size_t per_limb) {
    auto const rest = size % per_limb;
    return rest == 0 ? std::min(size, per_limb) : rest;
}

void append_letters(std::string& text, Limbs const& limbs) {
    auto const zeros = text.size();
    for (auto limb = limbs.rbegin(); limb != limbs.rend(); ++limb) {
        std::array<char, letters_per_limb> letters{};
        auto rest = *limb;
        for (auto letter = letters.rbegin(); letter != letters.rend(); ++letter, rest /= 58) {
            *letter = alphabet[rest % 58];
        }
        text.append(letters.begin(), letters.end());
    }
    auto const value = std::min(text.find_first_not_of(alphabet[0], zeros), text.size());
    text.erase(zeros, value - zeros); // Of the highest limb.
}

} // namespace

std::string to_base58(BytesView bytes) {
    auto const value = std::ranges::find_if(bytes, [](std::uint8_t byte) { return byte != 0; });
    std::string text(static_cast<std::size_t>(value - bytes.begin()), alphabet[0]);
    Limbs limbs;
    auto size = first_limb_size(bytes.size(), bytes_per_limb);
    for (; !bytes.empty(); bytes = bytes.subspan(size), size = bytes_per_limb) {
        std::uint64_t limb = 0;
        for (auto const byte : bytes.first(size)) {
            limb = limb << 8 | byte;
        }
        multiply_add(limbs, base_of_bytes, limb, base_of_letters);
    }
    append_letters(text, limbs);
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
    Limbs limbs;
    auto size = first_limb_size(text.size(), letters_per_limb);
    for (auto rest = text; !rest.empty(); rest.remove_prefix(size), size = letters_per_limb) {
        std::uint64_t limb = 0;
        for (char const letter : rest.substr(0, size)) {
            auto const digit = alphabet.find(letter);
            if (digit == std::string_view::npos) {
                return Error(
                    Errc::invalid_argument, std::string("'") + letter + "' is no base58 letter"
                );
            }
            limb = limb * 58 + digit;
        }
        multiply_add(limbs, base_of_letters, limb, base_of_bytes);
    }
    Bytes bytes(std::min(text.find_first_not_of(alphabet[0]), text.size()), 0);
    auto const zeros = bytes.size();
    for (auto limb = limbs.rbegin(); limb != limbs.rend(); ++limb) {
        for (std::size_t i = bytes_per_limb; i-- > 0;) {
            bytes.push_back(static_cast<std::uint8_t>(*limb >> (8 * i)));
        }
    }
    auto const first = bytes.begin() + static_cast<std::ptrdiff_t>(zeros);
    bytes.erase(first, std::find_if(first, bytes.end(), [](auto byte) { return byte != 0; }));
    return bytes;
}

} // namespace exo::net
