// SPDX-License-Identifier: Apache-2.0
//
// Which instance answers a chat request (T1). The same pure function on the master and on a node
// that decides by itself.
#pragma once

#include "base/result.hpp"
#include "model/state.hpp"

#include <map>
#include <set>

namespace exo::cluster {

// Requests that the caller knows to run or wait on each instance; those of State count as well if
// they are more.
using InFlight = std::map<model::InstanceId, std::uint32_t>;

// Of the instances of `model_id` whose ranks all serve and none of whose nodes is in `silent`: the
// one with the fewest requests, then the least id. Errors:
//   unavailable   there will be one: it loads, restarts or waits for a node; the text says which
//   conflict      a wish for the model stands refused; the text is its reason. An automatic
//                 PlaceInstance tries again (once a request, or a broken model is loaded for ever).
//   not_found     neither instance nor wish: place one
[[nodiscard]] Result<model::InstanceId> choose_instance(
    model::State const& state,
    model::ModelId const& model_id,
    InFlight const& in_flight,
    std::set<model::NodeId> const& silent
);

} // namespace exo::cluster
