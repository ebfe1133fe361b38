// SPDX-License-Identifier: Apache-2.0
//
// An instance: one model, placed on the ranks that run it. A wish: what a user asked for, which
// instances serve (specs/cluster.md section 0).
#pragma once

#include "model/card.hpp"
#include "model/ids.hpp"
#include "model/settings.hpp"

#include <map>
#include <optional>
#include <variant>
#include <vector>

namespace exo::model {

// Which transport joins the ranks: MlxRing is TCP, MlxJaccl is RDMA. The names are the API's.
enum class InstanceMeta { mlx_ring, mlx_jaccl };

// Layers [start_layer, end_layer) of a rank.
struct PipelineShardMetadata {
    ModelCard model_card;
    std::uint32_t device_rank = 0;
    std::uint32_t world_size = 1;
    std::uint32_t start_layer = 0;
    std::uint32_t end_layer = 0;
    std::uint32_t n_layers = 0;

    bool operator==(PipelineShardMetadata const&) const = default;
};

// A slice of every layer; `share` of each rank decides how wide (in proportion, any unit).
struct TensorShardMetadata {
    ModelCard model_card;
    std::uint32_t device_rank = 0;
    std::uint32_t world_size = 1;
    std::uint32_t start_layer = 0;
    std::uint32_t end_layer = 0;
    std::uint32_t n_layers = 0;
    std::uint64_t share = 1;

    bool operator==(TensorShardMetadata const&) const = default;
};

using ShardMetadata = std::variant<PipelineShardMetadata, TensorShardMetadata>;

struct ShardAssignments {
    ModelId model_id;
    std::map<RunnerId, ShardMetadata> runner_to_shard;
    std::map<NodeId, RunnerId> node_to_runner;

    bool operator==(ShardAssignments const&) const = default;
};

// Where a rank can be reached, as the master knew it. The port is 0: ranks agree on ports among
// themselves when they start (node/group), so that none can be taken already.
struct Host {
    std::string ip;
    std::uint16_t port = 0;

    bool operator==(Host const&) const = default;
};

struct MlxRingInstance {
    InstanceId instance_id;
    ShardAssignments shard_assignments;
    std::map<NodeId, std::vector<Host>> hosts_by_node;
    std::uint16_t ephemeral_port = 0;
    WishId wish_id;
    Generation generation = 1;
    std::optional<InstanceId> replaces;
    std::uint32_t context_length = 0; // Tokens of KV cache that each rank reserves.
    InstanceSettings settings;

    bool operator==(MlxRingInstance const&) const = default;
};

// Tagged in JSON: {"MlxRingInstance": {...}}. MlxJacclInstance joins it with RDMA.
using Instance = std::variant<MlxRingInstance>;

struct Wish {
    WishId wish_id;
    ModelCard model_card;
    Sharding sharding = Sharding::pipeline;
    InstanceMeta instance_meta = InstanceMeta::mlx_ring;
    std::uint32_t min_nodes = 1;
    std::uint32_t count = 1;
    InstanceSettings settings;
    bool automatic = false; // Made by a chat request, not by a placement.
    std::string refusal;    // Why it has no instance now; empty when it has one or none was tried.
    // Its last instance failed for good: not placed again until nodes change or a user asks (M3).
    bool failed = false;
    std::optional<InstanceId> last_instance_id; // Which the next instance replaces (M4).

    bool operator==(Wish const&) const = default;
};

// Parts that every kind of instance has.
[[nodiscard]] InstanceId const& instance_id(Instance const& instance);
[[nodiscard]] ShardAssignments const& shard_assignments(Instance const& instance);
[[nodiscard]] ModelCard const& model_card(Instance const& instance);
[[nodiscard]] WishId const& wish_id(Instance const& instance);
[[nodiscard]] Generation generation(Instance const& instance);
void set_generation(Instance& instance, Generation generation);
[[nodiscard]] std::uint32_t context_length(Instance const& instance);
[[nodiscard]] InstanceSettings const& settings(Instance const& instance);

[[nodiscard]] std::uint32_t device_rank(ShardMetadata const& shard);
[[nodiscard]] std::uint32_t world_size(ShardMetadata const& shard);

// True if ranks 0 to N - 1 are there once each, of one world size, model and kind, each on a node
// of its own. Documents from other nodes are checked with it; our own placements always are.
[[nodiscard]] bool is_well_formed(Instance const& instance);

// The node of each rank, in rank order. The first one samples.
[[nodiscard]] std::vector<NodeId> nodes_by_rank(Instance const& instance);
// Null when the node has no rank.
[[nodiscard]] RunnerId const* runner_of(Instance const& instance, NodeId const& node);

} // namespace exo::model
