// SPDX-License-Identifier: Apache-2.0
#include "net/host/connection_policy.hpp"

#include "base/assert.hpp"

#include <algorithm>
#include <utility>

namespace exo::net {

PolicyVerdict judge_connections(
    PeerId const& self,
    PeerId const& peer,
    PeerKind kind,
    std::span<HeldConnection const> connections
) {
    EXO_ASSERT(!connections.empty());
    EXO_ASSERT(self != peer);
    PolicyVerdict verdict;
    bool const we_are_smaller = self < peer;
    auto const worth = [&](HeldConnection const& one) {
        bool const of_larger = kind == PeerKind::exo && one.outbound != we_are_smaller;
        return std::pair(one.rank, of_larger);
    };
    auto const best = std::ranges::min_element(connections, {}, worth); // The oldest of equals.
    verdict.preferred = static_cast<std::size_t>(best - connections.begin());
    auto const limit = kind == PeerKind::foreign ? foreign_connections_max : peer_connections_max;
    for (std::size_t i = 0; i < connections.size(); ++i) {
        if (i == verdict.preferred) {
            continue;
        }
        if (i >= limit) {
            verdict.over_limit.push_back(i);
        } else if (kind == PeerKind::exo && we_are_smaller) {
            verdict.surplus.push_back(i);
        }
    }
    std::erase_if(verdict.surplus, [&](std::size_t i) {
        return connections[i].direct_streams > 0;
    });
    std::erase_if(verdict.over_limit, [&](std::size_t i) {
        return connections[i].direct_streams > 0;
    });
    return verdict;
}

} // namespace exo::net
