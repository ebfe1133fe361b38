// SPDX-License-Identifier: Apache-2.0
#include "core/placement/placement.hpp"

#include "base/assert.hpp"
#include "base/overloaded.hpp"
#include "base/text.hpp"
#include "core/placement/memory.hpp"
#include "core/placement/nodes.hpp"
#include "core/placement/split.hpp"

#include <algorithm>
#include <numeric>
#include <span>

namespace exo::placement {
namespace {

using namespace model;

constexpr std::uint32_t layers_max = 1u << 20; // Of any card; llama.cpp stops at 512.

// One way to place: how many ranks, how much context, what each rank holds.
struct Cut {
    std::uint32_t context_length = 0;
    std::vector<std::uint64_t> shares; // By rank.
};

Sharding sharding_of(Request const& request, std::size_t ranks) {
    return ranks == 1 ? Sharding::pipeline : request.sharding; // Nothing to cut.
}

std::optional<Cut>
cut(Request const& request, std::uint32_t context_length, std::span<Node const> nodes) {
    std::vector<std::uint64_t> free_bytes;
    for (auto const& node : nodes) {
        free_bytes.push_back(node.free_bytes);
    }
    auto shares = sharding_of(request, nodes.size()) == Sharding::pipeline
                      ? split_layers(request.model_card, context_length, free_bytes)
                      : split_width(request.model_card, context_length, free_bytes);
    if (!shares) {
        return std::nullopt;
    }
    return Cut{.context_length = context_length, .shares = std::move(*shares)};
}

// The model's own length or the default, then halves of it: the useful ones, the small ones.
struct Contexts {
    std::vector<std::uint32_t> useful;
    std::vector<std::uint32_t> small;
};

Contexts contexts_for(ModelCard const& card) {
    std::uint32_t const trained = card.context_length == 0 ? context_default : card.context_length;
    std::uint32_t context = std::min(trained, context_default);
    Contexts contexts{.useful = {context}, .small = {}};
    for (context /= 2; context >= context_min; context /= 2) {
        (context >= context_useful ? contexts.useful : contexts.small).push_back(context);
    }
    return contexts;
}

std::uint32_t ranks_max(Request const& request) {
    ModelCard const& card = request.model_card;
    if (request.sharding == Sharding::pipeline) {
        return std::min(pipeline_ranks_max, card.n_layers);
    }
    if (!card.supports_tensor) {
        return 1;
    }
    // A rank without a KV head trips llama.cpp's asserts (DESIGN.md 6).
    std::uint32_t const heads = card.num_key_value_heads;
    return heads == 0 ? tensor_ranks_max : std::min(tensor_ranks_max, heads);
}

std::optional<Cut> best_cut(Request const& request, std::span<Node const> nodes) {
    Contexts const contexts = contexts_for(request.model_card);
    std::size_t const least = std::max(request.min_nodes, 1u);
    std::size_t const most = std::min<std::size_t>(nodes.size(), ranks_max(request));
    for (auto const& lengths : {contexts.useful, contexts.small}) {
        for (std::size_t ranks = least; ranks <= most; ++ranks) {
            for (std::uint32_t const length : lengths) {
                if (auto found = cut(request, length, nodes.first(ranks))) {
                    return found;
                }
            }
        }
    }
    return std::nullopt;
}

// ---- refusals

std::string joined(std::vector<std::string> const& parts) {
    std::string text;
    for (auto const& part : parts) {
        text += (text.empty() ? "" : "; ") + part;
    }
    return text;
}

std::string free_memory_of(std::span<Node const> nodes) {
    std::vector<std::string> parts;
    for (auto const& node : nodes) {
        std::string part = node.label + " has " + format_size(node.free_bytes) + " free";
        if (node.promised_bytes > 0) {
            part +=
                " (and " + format_size(node.promised_bytes) + " promised to instances that load)";
        }
        parts.push_back(std::move(part));
    }
    return joined(parts);
}

std::string numbers_of(Nodes const& nodes) {
    std::vector<std::string> parts;
    if (!nodes.eligible.empty()) {
        parts.push_back(free_memory_of(nodes.eligible));
    }
    parts.insert(parts.end(), nodes.excluded.begin(), nodes.excluded.end());
    return parts.empty() ? "No node is known." : joined(parts) + ".";
}

// What can never work, whatever the nodes; empty if it can.
std::string impossible(Request const& request) {
    ModelCard const& card = request.model_card;
    std::string const asked =
        std::to_string(request.min_nodes) + " nodes were asked for (min_nodes)";
    if (card.n_layers == 0 || card.n_layers > layers_max || card.storage_size.in_bytes == 0) {
        return "its description lacks layers or size; the model file may be damaged";
    }
    if (request.instance_meta != InstanceMeta::mlx_ring) {
        return "MlxJaccl needs RDMA, which this version of exo does not drive; use MlxRing";
    }
    if (request.min_nodes > 1 && request.sharding == Sharding::tensor && !card.supports_tensor) {
        return "its architecture (" + card.architecture +
               ") cannot be cut by tensor; use Pipeline sharding";
    }
    std::uint32_t const most = ranks_max(request);
    if (request.min_nodes > most) {
        bool const pipeline = request.sharding == Sharding::pipeline;
        return asked + ", but " + (pipeline ? "Pipeline" : "Tensor") +
               " sharding of this model takes at most " + std::to_string(most) + " (" +
               (pipeline ? std::to_string(card.n_layers) + " layers"
                         : std::to_string(card.num_key_value_heads) + " key-value heads") +
               ")";
    }
    return {};
}

std::string needs_of(ModelCard const& card) {
    return "It needs " + format_size(card.storage_size.in_bytes) + " for its weights, " +
           format_size(kv_cache_bytes(card, context_min)) + " for " + std::to_string(context_min) +
           " tokens of context, and " + format_size(overhead_bytes(card)) + " on each node to run.";
}

Error refusal(Request const& request, std::string const& why) {
    return {Errc::conflict, "cannot place " + request.model_card.model_id.value() + ": " + why};
}

Error too_few(Request const& request, Nodes const& nodes) {
    std::size_t const least = std::max(request.min_nodes, 1u);
    bool const none = nodes.eligible.empty();
    std::string const have = std::to_string(nodes.eligible.size());
    std::string why = none ? "no node can run it now."
                           : std::to_string(least) + " nodes were asked for (min_nodes), " + have +
                                 " can take part.";
    why += " " + numbers_of(nodes);
    why += none ? " Bring the model to a node's models directory, or wait for a node that has it."
                : " Start exo on more nodes that have the model, or ask for fewer.";
    return refusal(request, why);
}

Error no_room(Request const& request, Nodes const& nodes) {
    return refusal(
        request,
        "not enough free memory. " + needs_of(request.model_card) + " " + numbers_of(nodes) +
            " Close other programs, delete an instance, add a node, or choose a smaller "
            "quantization."
    );
}

// ---- the document

// Layers of `rank`: ranks 1, 2, ... come first, rank 0 last (placement.hpp).
std::pair<std::uint32_t, std::uint32_t>
layers_of(std::vector<std::uint64_t> const& shares, std::size_t rank) {
    std::size_t const end = rank == 0 ? shares.size() : rank;
    auto const first = std::accumulate(
        shares.begin() + 1, shares.begin() + static_cast<std::ptrdiff_t>(end), std::uint64_t{0}
    );
    return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(first + shares[rank])};
}

ShardMetadata shard(Request const& request, Cut const& cut, std::size_t rank) {
    ModelCard const& card = request.model_card;
    auto const device_rank = static_cast<std::uint32_t>(rank);
    auto const world_size = static_cast<std::uint32_t>(cut.shares.size());
    if (sharding_of(request, cut.shares.size()) == Sharding::tensor) {
        return TensorShardMetadata{
            .model_card = card,
            .device_rank = device_rank,
            .world_size = world_size,
            .start_layer = 0,
            .end_layer = card.n_layers,
            .n_layers = card.n_layers,
            .share = cut.shares[rank]
        };
    }
    auto const [start, end] = layers_of(cut.shares, rank);
    return PipelineShardMetadata{
        .model_card = card,
        .device_rank = device_rank,
        .world_size = world_size,
        .start_layer = start,
        .end_layer = end,
        .n_layers = card.n_layers
    };
}

Instance document(Request const& request, Cut const& cut, std::span<Node const> nodes) {
    EXO_ASSERT(cut.shares.size() <= nodes.size());
    MlxRingInstance instance{
        .instance_id = request.instance_id,
        .wish_id = request.wish_id,
        .replaces = request.replaces,
        .context_length = cut.context_length
    };
    instance.shard_assignments.model_id = request.model_card.model_id;
    for (std::size_t rank = 0; rank < cut.shares.size(); ++rank) {
        Node const& node = nodes[rank];
        // Unique, since an instance has one rank a node and its id never comes again.
        RunnerId const runner(request.instance_id.value() + "-" + std::to_string(rank));
        instance.shard_assignments.runner_to_shard[runner] = shard(request, cut, rank);
        instance.shard_assignments.node_to_runner[node.id] = runner;
        instance.hosts_by_node[node.id] = node.hosts;
    }
    return instance;
}

// Layers of a stage, or the width of a tensor rank.
std::uint64_t share_of(ShardMetadata const& shard) {
    return std::visit(
        Overloaded{
            [](PipelineShardMetadata const& stage) {
                return std::uint64_t{stage.end_layer} -
                       std::min(stage.start_layer, stage.end_layer);
            },
            [](TensorShardMetadata const& part) { return part.share; },
        },
        shard
    );
}

std::uint64_t stage_bytes(PipelineShardMetadata const& stage, std::uint32_t context_length) {
    ModelCard const& card = stage.model_card;
    if (card.n_layers == 0) {
        return 0; // A document from outside that says nothing.
    }
    std::uint64_t const ends = (stage.start_layer == 0 ? vocabulary_bytes(card) : 0) +
                               (stage.end_layer == stage.n_layers ? vocabulary_bytes(card) : 0);
    return saturating_add(
        multiply_divide(layer_bytes(card, context_length), share_of(stage), 1),
        saturating_add(overhead_bytes(card), ends)
    );
}

} // namespace

Result<Instance> place(
    State const& state,
    Observations const& observations,
    std::set<NodeId> const& heard,
    Request const& request
) {
    if (std::string const why = impossible(request); !why.empty()) {
        return refusal(request, why + ".");
    }
    Nodes const nodes = consider(state, observations, heard, request.model_card);
    if (nodes.eligible.size() < std::max(request.min_nodes, 1u)) {
        return too_few(request, nodes);
    }
    auto const found = best_cut(request, nodes.eligible);
    if (!found) {
        return no_room(request, nodes);
    }
    return document(request, *found, nodes.eligible);
}

std::vector<std::uint64_t> shares_by_rank(Instance const& instance) {
    EXO_ASSERT(is_well_formed(instance));
    auto const& shards = shard_assignments(instance).runner_to_shard;
    std::vector<std::uint64_t> shares(shards.size(), 0);
    for (auto const& [runner, shard] : shards) {
        shares[device_rank(shard)] = share_of(shard);
    }
    return shares;
}

std::uint64_t memory_bytes_needed(Instance const& instance, RunnerId const& runner) {
    auto const& shards = shard_assignments(instance).runner_to_shard;
    auto const found = shards.find(runner);
    if (found == shards.end()) {
        return 0;
    }
    std::uint64_t total = 0;
    for (auto const& [other, shard] : shards) {
        total = saturating_add(total, share_of(shard));
    }
    std::uint32_t const context = context_length(instance);
    return std::visit(
        Overloaded{
            [&](PipelineShardMetadata const& shard) { return stage_bytes(shard, context); },
            [&](TensorShardMetadata const& shard) {
                return total == 0
                           ? 0
                           : tensor_rank_bytes(shard.model_card, context, shard.share, total);
            },
        },
        found->second
    );
}

} // namespace exo::placement
