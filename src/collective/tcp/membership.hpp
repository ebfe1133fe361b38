// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a group must have in common before they exchange a byte of a model
// (specs/cluster.md F3, specs/engine.md "Same program on every rank"). Pure.
#pragma once

#include "base/bytes.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace exo::collective {

using Key = std::array<std::uint8_t, 32>;
using Digest = std::array<std::uint8_t, 32>;

// BLAKE2b of some bytes, for the hashes below.
[[nodiscard]] Digest digest_of(BytesView bytes);

// What all ranks of a group must have in common, and which of them this one is. A difference is an
// error that names both sides.
struct Membership {
    std::uint32_t rank = 0;
    std::string instance_id;
    std::uint32_t generation = 1;
    Digest rank_map_hash{}; // Who is which rank, with which shares.
    Digest program_hash{};  // llama.cpp, our patches, exo, model header, parameters.
    std::string program;    // The same in words, for the error: "exo 0.1, llama.cpp b1234, ...".

    bool operator==(Membership const&) const = default;
};

// A membership as it is sent, within membership_bytes_max.
[[nodiscard]] Bytes encode(Membership const& membership, std::uint32_t size, bool plain_allowed);

struct PeerMembership {
    Membership membership;
    std::uint32_t size = 0;
    bool plain_allowed = false;

    bool operator==(PeerMembership const&) const = default;
};

// Error: protocol.
[[nodiscard]] Result<PeerMembership> decode_membership(BytesView bytes);

// Error: conflict, which names both sides and what to do. `where` is the peer's address.
[[nodiscard]] Result<void> check_agreement(
    Membership const& ours,
    std::uint32_t our_size,
    PeerMembership const& theirs,
    std::string const& where
);

// Texts are cut to this; with the rest a membership stays below 2 KiB.
constexpr std::size_t membership_text_bytes_max = 512;
constexpr std::size_t membership_bytes_max = 2048;

} // namespace exo::collective
