// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/serve_wish.hpp"

#include "core/placement/placement.hpp"

namespace exo::cluster {

Result<model::Instance> serve_wish(
    model::State const& state,
    model::Observations const& observations,
    std::set<model::NodeId> const& heard,
    model::Wish const& wish,
    model::InstanceId const& id
) {
    placement::Request request{
        .wish_id = wish.wish_id,
        .instance_id = id,
        .model_card = wish.model_card,
        .sharding = wish.sharding,
        .instance_meta = wish.instance_meta,
        .min_nodes = wish.min_nodes,
        .settings = wish.settings,
        .replaces = wish.last_instance_id
    };
    auto instance = placement::place(state, observations, heard, request);
    if (!instance && wish.last_instance_id && wish.min_nodes > 1) {
        request.min_nodes = 1;
        instance = placement::place(state, observations, heard, request);
    }
    return instance;
}

} // namespace exo::cluster
