// SPDX-License-Identifier: Apache-2.0
//
// Gossip that must be refused: an RPC for each way to get the signature wrong, and a good one last,
// so that who receives it has seen the others. For tests only; the product cannot send such bytes.
#pragma once

#include "base/bytes.hpp"
#include "net/crypto/identity.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace exo::net {

constexpr char const* spoiled_text = "spoiled"; // The beginning of what must not be received.
constexpr char const* good_text = "good";       // The whole of what must be.

// RPCs of gossipsub, without their lengths, numbered from `sequence_number` on.
[[nodiscard]] std::vector<Bytes>
spoiled_rpcs(Identity const& identity, std::string const& topic, std::uint64_t sequence_number);

} // namespace exo::net
