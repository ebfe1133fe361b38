// SPDX-License-Identifier: Apache-2.0
//
// Which nodes run a model, and what each of them holds. Pure, in integers, so that every node would
// decide alike.
//
// Order of ranks, for all of exo: rank 0 samples, so it holds the *last* layers of a pipeline,
// where the logits are (specs/engine.md). Layers run through rank 1, 2, ... N - 1 and end in rank
// 0. Rank 0 is the node with the most free memory.
#pragma once

#include "base/result.hpp"
#include "model/instance.hpp"
#include "model/node_info.hpp"
#include "model/state.hpp"

#include <set>

namespace exo::placement {

// llama.cpp's scheduler takes 16 backends, one of them the CPU; its meta device 16 parts.
constexpr std::uint32_t pipeline_ranks_max = 15;
constexpr std::uint32_t tensor_ranks_max = 16;
// Tokens of KV cache when memory allows: chats fit, and a laptop is not filled by one model.
constexpr std::uint32_t context_default = 8192;
// Less than this is taken before another node is; below it, more nodes are tried first.
constexpr std::uint32_t context_useful = 2048;
constexpr std::uint32_t context_min = 512;

struct Request {
    model::WishId wish_id;
    model::InstanceId instance_id; // Of the instance to make.
    model::ModelCard model_card;
    model::Sharding sharding = model::Sharding::pipeline;
    model::InstanceMeta instance_meta = model::InstanceMeta::mlx_ring;
    std::uint32_t min_nodes = 1;
    model::InstanceSettings settings;
    std::optional<model::InstanceId> replaces;
};

// An instance on nodes that are members, work, were `heard` and have the model; or why not:
// invalid_argument (the request can never be met), conflict (not now), with the numbers of every
// node and what can be done.
//
// The fewest nodes that fit win, at least min_nodes; of those the ones with the most free memory,
// then the least id. Layers (pipeline) are in proportion to free memory, at least one a rank.
// Memory that instances still loading will take is not free.
//
// The context is settings.context_length and no other, when it says one. With a draft model, rank 0
// is the node with the most free memory of those that have the draft too, and holds it all.
[[nodiscard]] Result<model::Instance> place(
    model::State const& state,
    model::Observations const& observations,
    std::set<model::NodeId> const& heard,
    Request const& request
);

// What one rank of an instance needs in memory on its node, but for a draft model (whose size the
// instance does not tell); 0 if there is no such rank.
[[nodiscard]] std::uint64_t
memory_bytes_needed(model::Instance const& instance, model::RunnerId const& runner);

// Tensor widths or pipeline layers of all ranks: what the runner's Start.shares takes.
// REQUIRES: model::is_well_formed(instance).
[[nodiscard]] std::vector<std::uint64_t> shares_by_rank(model::Instance const& instance);

} // namespace exo::placement
