// SPDX-License-Identifier: Apache-2.0
//
// Which of several connections with one peer is used, and which are closed. Pure.
//
// Both sides of a pair dial, so doubles are normal. Between exo peers one is kept: of the best way
// (a LAN before an overlay) the oldest of those that the smaller id has dialled. Only the smaller
// id closes the others, for two judges might close all. A foreign peer may have a few: closing one
// can lose what it is sending.
#pragma once

#include "net/wire/peer_id.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace exo::net {

// Of a peer that is not exo. rust redials bootstrap addresses without looking, so they can grow.
constexpr std::size_t foreign_connections_max = 4;
// Of any peer, also while it has not said yet what it is.
constexpr std::size_t peer_connections_max = 8;

enum class PeerKind { unknown, exo, foreign };

struct HeldConnection {
    bool outbound = false;
    std::size_t direct_streams = 0;
    int rank = 0; // Of its way (net/interfaces/reach.hpp); 0 is best.
};

struct PolicyVerdict {
    std::size_t preferred = 0;           // Index: where our new streams go.
    std::vector<std::size_t> surplus;    // Close them once their direct streams have ended.
    std::vector<std::size_t> over_limit; // Close them now.
};

// `connections` are in the order in which they came. REQUIRES: at least one.
[[nodiscard]] PolicyVerdict judge_connections(
    PeerId const& self,
    PeerId const& peer,
    PeerKind kind,
    std::span<HeldConnection const> connections
);

} // namespace exo::net
