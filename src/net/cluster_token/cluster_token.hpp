// SPDX-License-Identifier: Apache-2.0
//
// The join token of a private cluster: its secret, and where members were to be found when the
// token was made, in one line that people copy. Pure.
//
//     exo1-  base32 of { secret 32, address count 1, { length 1, multiaddr }..., CRC-32 4 }
//
// "1" is the version. The CRC finds every single wrong letter, neighbours that were swapped, and
// whatever happened to six letters in a row; it is no protection against forgery, for who has the
// token has the secret. docs/protocols/join-token.md.
#pragma once

#include "base/bytes.hpp"
#include "net/crypto/psk.hpp"
#include "net/wire/multiaddr.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace exo::net {

// A member or two that are up suffice to join; the line must stay one that can be copied.
constexpr std::size_t token_addresses_max = 8;
// IPv6 with a peer id has 61; names may be longer, and then do not fit.
constexpr std::size_t token_address_bytes_max = 64;
// The longest token has 903 letters; the rest is for blanks and line breaks of a careless copy.
constexpr std::size_t token_text_max = 1024;

struct ClusterToken {
    Psk secret{};
    std::vector<Multiaddr> addresses; // To be dialled, the most promising first.
    bool operator==(ClusterToken const&) const = default;
};

// REQUIRES: addresses within both limits.
[[nodiscard]] std::string to_text(ClusterToken const& token);

// Blanks anywhere are passed over: a line that a terminal has broken is still one token.
// Error: invalid_argument, saying what is wrong and what to do, and nothing of what is in the
// token.
[[nodiscard]] Result<ClusterToken> parse_cluster_token(std::string_view text);

// What the last four bytes are, of all before them: CRC-32 of IEEE 802.3. For the fuzzer, which
// could not guess it.
[[nodiscard]] std::uint32_t token_checksum(BytesView bytes);

} // namespace exo::net
