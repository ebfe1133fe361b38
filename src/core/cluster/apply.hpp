// SPDX-License-Identifier: Apache-2.0
//
// State as a fold over the log. Pure: the same events give the same State on every node, whatever
// they contain; what an event names and State does not know is ignored.
#pragma once

#include "model/event.hpp"
#include "model/state.hpp"

namespace exo::cluster {

// Applies the event at `index`. REQUIRES: index == state.last_event_applied_idx + 1.
void apply(model::State& state, std::int64_t index, model::Event const& event);

// Passes over an event of a kind that this version does not know (S5). REQUIRES: as above.
void skip(model::State& state, std::int64_t index);

} // namespace exo::cluster
