// SPDX-License-Identifier: Apache-2.0
//
// What the master does of its own accord: buries silent nodes (M1), deletes instances that cannot
// live (M2), restarts failed groups (M3) and gives every wish an instance (M4). Pure; the driver
// calls it each `duties_interval`, appends what it returns, and calls again while it returns
// something.
//
// Each rule reads State, observations and who was heard, and nothing that two events must both have
// survived for. `Duties` is only patience: how often and when something was tried. A new master
// starts with an empty one.
#pragma once

#include "core/cluster/hearing.hpp"
#include "model/event.hpp"
#include "model/node_info.hpp"
#include "model/state.hpp"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace exo::cluster {

constexpr Duration duties_interval = 500ms;
// After a session's start: nodes are still joining, so nothing missing is judged (A3).
constexpr Duration settle_time = 5s;
// How long the word of a rank keeps a silent node of its group alive (M1, M2).
constexpr Duration vouching_max = 60s;
// A group that fails again within this time of being ready goes on with the longer pauses.
constexpr Duration stable_time = 60s;
constexpr std::uint32_t restarts_max = 5; // After 1, 2, 4, 8, 16 s (M3).

struct Duties {
    struct Patience { // With an instance whose group fails.
        std::uint32_t restarts = 0;
        std::optional<TimePoint> restart_at;  // Failed now; started anew then.
        std::optional<TimePoint> ready_since; // All ranks serve since then.
    };

    struct Attempts { // To place a wish.
        std::uint32_t count = 0;
        TimePoint next;
        // What the last attempt saw: nodes, and their free memory in coarse steps.
        std::map<model::NodeId, std::uint64_t> seen;
    };

    std::map<model::InstanceId, Patience> instances;
    std::map<model::WishId, Attempts> wishes;
    std::map<model::NodeId, TimePoint> vouched_since; // Silent, kept by the word of a rank.
};

struct DutiesInput {
    model::State const& state;
    model::Observations const& observations;
    LastHeard const& last_heard;
    // Nodes for which a rank that was heard within 3 s vouches (W4).
    std::set<model::NodeId> const& vouched;
    TimePoint session_started;
    TimePoint now;
};

// REQUIRES: the caller leads the session of `state`. Events of one rule at a time: the next rule
// sees their effect in the next call.
[[nodiscard]] std::vector<model::Event> duties(Duties& memory, DutiesInput const& input);

} // namespace exo::cluster
