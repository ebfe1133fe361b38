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

} // namespace exo::node
