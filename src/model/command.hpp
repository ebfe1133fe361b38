// SPDX-License-Identifier: Apache-2.0
//
// What is asked of the master. Each is answered: accepted with its effects, or refused with the
// reason (specs/cluster.md C1).
#pragma once

#include "model/instance.hpp"

#include <variant>

namespace exo::model {

struct PlaceInstance {
    WishId wish_id; // The command's id, or the model's id when automatic (C4).
    ModelCard model_card;
    Sharding sharding = Sharding::pipeline;
    InstanceMeta instance_meta = InstanceMeta::mlx_ring;
    std::uint32_t min_nodes = 1;
    InstanceSettings settings;
    bool automatic = false;

    bool operator==(PlaceInstance const&) const = default;
};

// Deletes the instance and its wish.
struct DeleteInstance {
    InstanceId instance_id;

    bool operator==(DeleteInstance const&) const = default;
};

using Command = std::variant<PlaceInstance, DeleteInstance>;

} // namespace exo::model
