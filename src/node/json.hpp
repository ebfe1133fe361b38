// SPDX-License-Identifier: Apache-2.0
//
// The descriptions of this layer's messages, for model/json.hpp.
#pragma once

#include "ipc/describe.hpp"
#include "model/describe.hpp"
#include "node/messages.hpp"

namespace exo::node {

EXO_DESCRIBE(OpenTask, instance_id, resume, next_number, request)
EXO_DESCRIBE(ChooseInstance, model)
EXO_DESCRIBE(ChosenInstance, instance_id)
EXO_DESCRIBE(JoinGroup, instance_id, generation, device_rank, endpoint)
EXO_DESCRIBE(GroupComplete, connect)
EXO_DESCRIBE(Way, sharding, ranks)
EXO_DESCRIBE(ProbeModel, model, ways)
EXO_DESCRIBE(ProbedModel, cuts, error)
EXO_DESCRIBE(ProbeOutput, ok, reason, layer_bytes, ranks)

} // namespace exo::node

namespace exo::model {

// A refusal has no figures.
template <>
inline constexpr bool absent_fields_keep_defaults<node::ProbeOutput> = true;

} // namespace exo::model
