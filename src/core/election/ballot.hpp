// SPDX-License-Identifier: Apache-2.0
//
// What nodes say to each other in an election: ballots and standings (specs/cluster.md 0, 1).
#pragma once

#include "model/event.hpp"

#include <compare>
#include <cstdint>
#include <optional>

namespace exo::election {

// A node's candidacy in the campaign of one clock. The order of the members is the order of
// precedence: the newest campaign first, then seniority, then the busier log, then the id as a
// tie-break that all nodes compute alike. `boot` only tells apart two processes with one id.
struct Ballot {
    std::uint64_t clock = 0;
    std::int32_t seniority =
        0; // Negative: cannot write its log, elected only if no one else stands.
    std::uint64_t commands_seen = 0;
    model::NodeId node_id;
    model::Boot boot = 0;

    auto operator<=>(Ballot const&) const = default;
};

// A master's claim, and its sign of life: `seq` rises with each, whoever passes it on. Newer is a
// greater ballot, then a greater seq.
struct Standing {
    Ballot ballot;
    std::uint64_t seq = 0;
    std::optional<model::Session> session; // None while it still recovers the log.
    std::int64_t head = -1;                // Index of its last event.

    bool operator==(Standing const&) const = default;
};

[[nodiscard]] inline bool newer(Standing const& a, Standing const& b) {
    return a.ballot != b.ballot ? a.ballot > b.ballot : a.seq > b.seq;
}

} // namespace exo::election
