// SPDX-License-Identifier: Apache-2.0
#include "net/cluster_token/cluster_token.hpp"

#include "base/assert.hpp"
#include "net/cluster_token/base32.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace exo::net {
namespace {

constexpr std::string_view name = "exo";
constexpr std::string_view version = "1";
constexpr std::string_view head = "exo1-";
constexpr std::size_t checksum_bytes = 4;
constexpr std::size_t secret_bytes = std::tuple_size_v<Psk>;
// No address: the secret, their count, the checksum.
constexpr std::size_t bytes_min = secret_bytes + 1 + checksum_bytes;

void append_checksum(Bytes& bytes) {
    auto const sum = token_checksum(bytes);
    for (int shift = 24; shift >= 0; shift -= 8) {
        bytes.push_back(static_cast<std::uint8_t>(sum >> shift));
    }
}

bool checksum_fits(BytesView bytes) {
    auto const content = bytes.first(bytes.size() - checksum_bytes);
    Bytes expected(content.begin(), content.end());
    append_checksum(expected);
    return std::ranges::equal(expected, bytes);
}

Error refusal(std::string const& why) {
    return {Errc::invalid_argument, "the join token " + why};
}

constexpr char const* copy_again = "copy the whole line that 'exo cluster token' prints";

Error cut_off() {
    return refusal(fmt::format("is cut off, or has a wrong letter: {}", copy_again));
}

std::string without_blanks(std::string_view text) {
    std::string result;
    std::ranges::copy_if(text, std::back_inserter(result), [](char letter) {
        return std::string_view(" \t\r\n").find(letter) == std::string_view::npos;
    });
    return result;
}

// What follows "exo1-".
Result<std::string_view> take_head(std::string_view text) {
    std::string lower(text.substr(0, head.size()));
    std::ranges::transform(lower, lower.begin(), [](char letter) {
        return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    });
    if (lower == head) {
        return text.substr(head.size());
    }
    bool const other_version = lower.size() == head.size() && lower.starts_with(name) &&
                               lower[name.size()] >= '0' && lower[name.size()] <= '9' &&
                               lower.ends_with('-');
    if (other_version) {
        return refusal(fmt::format(
            "has version {}, and this exo reads version {}: use the same exo on all machines",
            lower[name.size()],
            version
        ));
    }
    return refusal(fmt::format("must begin with '{}': {}", head, copy_again));
}

Result<Bytes> take_letters(std::string_view letters) {
    if (auto const place = first_bad_base32_letter(letters)) {
        return refusal(fmt::format(
            "has a letter that none can have, after {} letters: {}",
            head.size() + *place,
            copy_again
        ));
    }
    auto bytes = from_base32(letters);
    if (!bytes || bytes->size() < bytes_min) {
        return cut_off();
    }
    return std::move(*bytes);
}

// The addresses in `bytes`, which end with the last one.
Result<std::vector<Multiaddr>> read_addresses(BytesView bytes) {
    std::size_t const count = bytes[0];
    bytes = bytes.subspan(1);
    if (count > token_addresses_max) {
        return refusal(
            fmt::format("has {} addresses, and {} are allowed", count, token_addresses_max)
        );
    }
    std::vector<Multiaddr> addresses;
    for (std::size_t i = 0; i < count; ++i) {
        if (bytes.empty() || bytes.size() < std::size_t{bytes[0]} + 1) {
            return cut_off();
        }
        auto const part = bytes.subspan(1, bytes[0]);
        bytes = bytes.subspan(part.size() + 1);
        auto const address = Multiaddr::from_bytes(part);
        if (part.size() > token_address_bytes_max || !address || !address->tcp_target()) {
            return refusal("has an address that this exo cannot use: "
                           "use the same exo on all machines");
        }
        addresses.push_back(*address);
    }
    if (!bytes.empty()) {
        return refusal(fmt::format("has {} bytes too many: {}", bytes.size(), copy_again));
    }
    return addresses;
}

} // namespace

// Bit by bit: a token is short.
std::uint32_t token_checksum(BytesView bytes) {
    std::uint32_t remainder = 0xffffffff;
    for (auto const byte : bytes) {
        remainder ^= byte;
        for (int bit = 0; bit < 8; ++bit) {
            remainder = remainder >> 1 ^ (0xedb88320U & (0U - (remainder & 1)));
        }
    }
    return ~remainder;
}

std::string to_text(ClusterToken const& token) {
    EXO_ASSERT(token.addresses.size() <= token_addresses_max);
    Bytes bytes(token.secret.begin(), token.secret.end());
    bytes.push_back(static_cast<std::uint8_t>(token.addresses.size()));
    for (auto const& address : token.addresses) {
        auto const part = address.bytes();
        EXO_ASSERT(part.size() <= token_address_bytes_max);
        bytes.push_back(static_cast<std::uint8_t>(part.size()));
        append(bytes, part);
    }
    append_checksum(bytes);
    return std::string(head) + to_base32(bytes);
}

Result<ClusterToken> parse_cluster_token(std::string_view text) {
    if (text.size() > token_text_max) {
        return refusal(
            fmt::format("has {} letters, and {} are allowed", text.size(), token_text_max)
        );
    }
    auto const plain = without_blanks(text);
    auto const letters = take_head(plain);
    if (!letters) {
        return letters.error();
    }
    auto const bytes = take_letters(*letters);
    if (!bytes) {
        return bytes.error();
    }
    auto const all = BytesView(*bytes);
    if (!checksum_fits(all)) {
        return cut_off();
    }
    auto const content = all.first(all.size() - checksum_bytes);
    auto addresses = read_addresses(content.subspan(secret_bytes));
    if (!addresses) {
        return addresses.error();
    }
    ClusterToken token;
    std::ranges::copy(content.first(secret_bytes), token.secret.begin());
    token.addresses = std::move(*addresses);
    return token;
}

} // namespace exo::net
