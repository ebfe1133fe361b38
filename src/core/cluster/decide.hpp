// SPDX-License-Identifier: Apache-2.0
//
// What the master answers to a command, and which events it makes of it. Pure.
#pragma once

#include "base/result.hpp"
#include "model/command.hpp"
#include "model/event.hpp"
#include "model/node_info.hpp"
#include "model/state.hpp"

#include <set>
#include <vector>

namespace exo::cluster {

struct Decision {
    std::vector<model::Event> events; // To be numbered and applied in this order, all of them.
    // Accepted, with its effect; sent when the events are durable (C3). Or refused with the reason;
    // then there are no events. Errors: invalid_argument, not_found, conflict.
    Result<model::CommandOutcome> answer;
};

// `heard`: the nodes heard within placement_silence_max (hearing.hpp), the own one included.
//
// - A command id that State knows gets its recorded outcome and no events (C2).
// - PlaceInstance makes a wish and its instance, or is refused with the numbers of each node. An
//   automatic one returns an instance of the model that exists already, whoever placed it, and
//   otherwise serves a wish for the model that has none now.
// - DeleteInstance deletes the instance and its wish.
[[nodiscard]] Decision decide(
    model::State const& state,
    model::Observations const& observations,
    model::Command const& command,
    model::CommandId const& command_id,
    std::set<model::NodeId> const& heard
);

} // namespace exo::cluster
