// SPDX-License-Identifier: Apache-2.0
//
// Small clusters for the tests of core: nodes a, b, c ... that have the model "m" on their disks.
#pragma once

#include "core/placement/placement.hpp"
#include "model/node_info.hpp"
#include "model/state.hpp"

#include <set>
#include <string>

namespace exo::examples {

constexpr std::uint64_t mib = 1u << 20;
constexpr std::uint64_t gib = 1u << 30;

// 28 layers, 2.8 GB, 8 KV heads.
inline model::ModelCard card(std::string const& id = "m") {
    return {
        .model_id = model::ModelId(id),
        .storage_size = {28 * 100 * mib},
        .n_layers = 28,
        .hidden_size = 2048,
        .num_attention_heads = 16,
        .num_key_value_heads = 8,
        .context_length = 32'768,
        .vocabulary_size = 32'000,
        .kv_bytes_per_token = 28 * 4096,
        .supports_tensor = true,
        .architecture = "llama"
    };
}

inline model::NodeInfo node(std::string const& id, std::uint64_t free_bytes) {
    return {
        .node_id = model::NodeId(id),
        .boot = 1,
        .memory = {.ram_total = {64 * gib}, .ram_available = {free_bytes}},
        .interfaces = {{.name = "eth0", .ip_address = "10.0.0." + id}},
        .models = {card()}
    };
}

struct Cluster {
    model::State state;
    model::Observations observations;
    std::set<model::NodeId> heard;

    Cluster& add(model::NodeInfo const& info) {
        state.members[info.node_id] = {
            .boot = info.boot, .report_id = {.boot = info.boot, .n = 1}, .settled = true
        };
        observations[info.node_id] = info;
        heard.insert(info.node_id);
        return *this;
    }
};

inline placement::Request request(std::uint32_t min_nodes = 1) {
    return {
        .wish_id = model::WishId("w"),
        .instance_id = model::InstanceId("i"),
        .model_card = card(),
        .min_nodes = min_nodes
    };
}

// One rank a node, in this order.
inline model::MlxRingInstance
instance(std::string const& id, std::string const& wish, std::vector<std::string> const& nodes) {
    model::MlxRingInstance ring{
        .instance_id = model::InstanceId(id), .wish_id = model::WishId(wish), .context_length = 2048
    };
    ring.shard_assignments.model_id = card().model_id;
    auto const world_size = static_cast<std::uint32_t>(nodes.size());
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
        model::RunnerId const runner(id + "-" + std::to_string(rank));
        ring.shard_assignments.node_to_runner[model::NodeId(nodes[rank])] = runner;
        ring.shard_assignments.runner_to_shard[runner] = model::PipelineShardMetadata{
            .model_card = card(),
            .device_rank = rank,
            .world_size = world_size,
            .start_layer = 0,
            .end_layer = card().n_layers / world_size,
            .n_layers = card().n_layers
        };
    }
    return ring;
}

inline model::Wish wish(std::string const& id) {
    return {.wish_id = model::WishId(id), .model_card = card()};
}

} // namespace exo::examples
