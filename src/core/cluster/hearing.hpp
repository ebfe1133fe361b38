// SPDX-License-Identifier: Apache-2.0
//
// Who was heard when, as the driver measures it from beats; decisions take it as a value.
#pragma once

#include "base/time.hpp"
#include "model/ids.hpp"

#include <map>
#include <set>

namespace exo::cluster {

// The newest sign of life of each node: beats, and what the driver knows from before the session.
// The own node belongs in it, as heard now.
using LastHeard = std::map<model::NodeId, TimePoint>;

[[nodiscard]] std::set<model::NodeId>
heard_within(LastHeard const& last_heard, Duration time, TimePoint now);

// Placements are made on nodes heard within this time (M4).
constexpr Duration placement_silence_max = 2s;
// A rank silent for this long may be about to be gone: no judgement of its instance (M2).
constexpr Duration doubtful_silence = 1500ms;
// A node silent for this long is dead (M1).
constexpr Duration dead_silence = 6s;

} // namespace exo::cluster
