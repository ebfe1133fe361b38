// SPDX-License-Identifier: Apache-2.0
//
// The instance that serves a wish now (specs/cluster.md section 0).
#pragma once

#include "base/result.hpp"
#include "model/instance.hpp"
#include "model/node_info.hpp"
#include "model/state.hpp"

#include <set>

namespace exo::cluster {

// `id` is the instance's. Errors: those of placement::place.
//
// min_nodes is how the user wants the model placed. A wish that was placed so once and lost its
// nodes is served by fewer rather than by none: whoever asks for the model wants an answer.
[[nodiscard]] Result<model::Instance> serve_wish(
    model::State const& state,
    model::Observations const& observations,
    std::set<model::NodeId> const& heard,
    model::Wish const& wish,
    model::InstanceId const& id
);

} // namespace exo::cluster
