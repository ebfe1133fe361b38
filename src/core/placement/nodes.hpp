// SPDX-License-Identifier: Apache-2.0
//
// Which nodes can take part in a placement, with how much memory, and why the others cannot.
#pragma once

#include "model/instance.hpp"
#include "model/node_info.hpp"
#include "model/state.hpp"

#include <set>
#include <string>
#include <vector>

namespace exo::placement {

struct Node {
    model::NodeId id;
    std::string label; // For people.
    std::uint64_t free_bytes = 0;
    std::uint64_t promised_bytes = 0; // To instances that load; not in free_bytes.
    std::vector<model::Host> hosts;   // Best first.
};

struct Nodes {
    std::vector<Node> eligible;        // Most free memory first, then by id.
    std::vector<std::string> excluded; // "<label>: <reason>", by node id.
};

[[nodiscard]] Nodes consider(
    model::State const& state,
    model::Observations const& observations,
    std::set<model::NodeId> const& heard,
    model::ModelCard const& card
);

} // namespace exo::placement
