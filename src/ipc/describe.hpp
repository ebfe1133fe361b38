// SPDX-License-Identifier: Apache-2.0
//
// The descriptions of the messages between a node and its runner, for model/json.hpp.
#pragma once

#include "ipc/messages.hpp"
#include "model/describe.hpp"

namespace exo::ipc {

EXO_DESCRIBE(
    Start,
    instance_id,
    runner_id,
    generation,
    sharding,
    device_rank,
    world_size,
    shares,
    model_paths,
    context_length,
    micro_batch,
    threads,
    device,
    settings,
    draft_paths,
    private_networks
)
EXO_DESCRIBE(RankEndpoint, addresses, port)
EXO_DESCRIBE(Connect, key_hex, endpoints)
EXO_DESCRIBE(Generate, request)
EXO_DESCRIBE(Cancel, task_id)
EXO_DESCRIBE(Shutdown)

EXO_DESCRIBE(Listening, port)
EXO_DESCRIBE(StatusChanged, status)
EXO_DESCRIBE(Generated, task_id, event)
EXO_DESCRIBE(Fault, message)

} // namespace exo::ipc
