// SPDX-License-Identifier: Apache-2.0
//
// The names of things. A NodeId is the libp2p peer id (base58) of the node's Ed25519 key.
#pragma once

#include "base/strong.hpp"

#include <cstdint>
#include <string>

namespace exo::model {

using NodeId = Strong<std::string, struct NodeIdTag>;
using InstanceId = Strong<std::string, struct InstanceIdTag>;
using RunnerId = Strong<std::string, struct RunnerIdTag>;
using TaskId = Strong<std::string, struct TaskIdTag>;
using CommandId = Strong<std::string, struct CommandIdTag>;
// "owner/repo", "owner/repo:QUANT" or a plain name, as users write it.
using ModelId = Strong<std::string, struct ModelIdTag>;
// What a user asked for: the id of the command, or the model's id for an automatic wish
// (specs/cluster.md C4).
using WishId = Strong<std::string, struct WishIdTag>;

// 64 random bits drawn at process start: tells a restarted node from its former self.
using Boot = std::uint64_t;
// Counts the starts of one instance's runner group.
using Generation = std::uint32_t;

struct Memory {
    std::uint64_t in_bytes = 0;
    auto operator<=>(Memory const&) const = default;
};

} // namespace exo::model
