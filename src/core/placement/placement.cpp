// SPDX-License-Identifier: Apache-2.0
#include "core/placement/placement.hpp"

#include "base/assert.hpp"
#include "base/overloaded.hpp"
#include "base/text.hpp"
#include "core/placement/cuts.hpp"
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

// What is to be placed, and on what.
struct Problem {
    Request const& request;
    std::span<Node const> nodes;      // In the order of ranks.
    ModelCard const* draft = nullptr; // Which rank 0 holds too.
};

std::vector<std::uint64_t>
free_bytes(Problem const& problem, std::uint32_t context_length, std::size_t ranks) {
    std::vector<std::uint64_t> free;
    for (auto const& node : problem.nodes.first(ranks)) {
        free.push_back(node.free_bytes);
    }
    if (problem.draft != nullptr) {
        free.front() -= std::min(free.front(), draft_bytes(*problem.draft, context_length));
    }
    return free;
}

std::optional<Cut> cut(Problem const& problem, std::uint32_t context_length, std::size_t ranks) {
    ModelCard const& card = problem.request.model_card;
    Cache const cache{.tokens = context_length, .type = problem.request.settings.cache_type};
    auto const free = free_bytes(problem, context_length, ranks);
    auto shares = sharding_of(problem.request, ranks) == Sharding::pipeline
                      ? split_layers(card, cache, free)
                      : split_width(card, cache, free);
    if (!shares) {
        return std::nullopt;
    }
    return Cut{.context_length = context_length, .shares = std::move(*shares)};
}

// What the user wants; else the model's own length or the default, then halves of it: the useful
// ones, the small ones.
struct Contexts {
    std::vector<std::uint32_t> useful;
    std::vector<std::uint32_t> small;
};

Contexts contexts_for(Request const& request) {
    ModelCard const& card = request.model_card;
    if (request.settings.context_length != 0) {
        return {.useful = {request.settings.context_length}, .small = {}};
    }
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
    return request.sharding == Sharding::pipeline ? std::min(pipeline_ranks_max, card.n_layers)
                                                  : tensor_ranks_max;
}

// Why the request cannot be met with so many ranks; empty if it can, as far as the model goes.
std::string why_not(Request const& request, std::uint32_t ranks) {
    return why_not_cut(request.model_card, request.sharding, ranks);
}

std::optional<Cut> best_cut(Problem const& problem) {
    Request const& request = problem.request;
    Contexts const contexts = contexts_for(request);
    std::uint32_t const least = std::max(request.min_nodes, 1u);
    auto const most =
        static_cast<std::uint32_t>(std::min<std::size_t>(problem.nodes.size(), ranks_max(request)));
    for (auto const& lengths : {contexts.useful, contexts.small}) {
        for (std::uint32_t ranks = least; ranks <= most; ++ranks) {
            if (!why_not(request, ranks).empty()) {
                continue;
            }
            for (std::uint32_t const length : lengths) {
                if (auto found = cut(problem, length, ranks)) {
                    return found;
                }
            }
        }
    }
    return std::nullopt;
}

// Of the nodes that have the draft model the one with the most free memory leads: the others keep
// their order. The draft's card, or null if no node has it.
ModelCard const*
lead_with_draft(std::vector<Node>& nodes, Observations const& observations, ModelId const& draft) {
    for (auto node = nodes.begin(); node != nodes.end(); ++node) {
        auto const& models = observations.at(node->id).models;
        auto const card = std::ranges::find(models, draft, &ModelCard::model_id);
        if (card != models.end()) {
            std::rotate(nodes.begin(), node, node + 1);
            return &*card;
        }
    }
    return nullptr;
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
    std::uint32_t const context = request.settings.context_length;
    if (card.context_length != 0 && context > card.context_length) {
        return std::to_string(context) +
               " tokens of context were asked for (context_length), and "
               "it is trained for " +
               std::to_string(card.context_length);
    }
    std::uint32_t const most = ranks_max(request);
    if (request.min_nodes > most) {
        bool const pipeline = request.sharding == Sharding::pipeline;
        return asked + ", but " + (pipeline ? "Pipeline" : "Tensor") +
               " sharding of this model takes at most " + std::to_string(most) +
               (most == card.n_layers && pipeline ? " (its layers)" : "");
    }
    return {};
}

// Why the model cannot be cut into any number of parts that there are nodes for; empty if it can.
std::string uncuttable(Request const& request, std::size_t nodes) {
    ModelCard const& card = request.model_card;
    std::uint32_t const least = std::max(request.min_nodes, 1u);
    auto const most = static_cast<std::uint32_t>(std::min<std::size_t>(nodes, ranks_max(request)));
    for (std::uint32_t ranks = least; ranks <= most; ++ranks) {
        if (why_not(request, ranks).empty()) {
            return {};
        }
    }
    std::string const why = why_not(request, least);
    bool const by_layers = request.sharding == Sharding::tensor && least <= card.n_layers &&
                           why_not_cut(card, Sharding::pipeline, least).empty();
    return why + (by_layers ? "; use Pipeline sharding" : "");
}

// Of the numbers of ranks that there are nodes for, the first that the model cannot be cut into.
std::string first_refusal(Request const& request, std::size_t nodes) {
    std::uint32_t const most = ranks_max(request);
    for (auto ranks = std::max(request.min_nodes, 1u); ranks <= most && ranks <= nodes; ++ranks) {
        if (std::string const why = why_not(request, ranks); !why.empty()) {
            return " Over " + std::to_string(ranks) + " nodes " + why + ".";
        }
    }
    return {};
}

std::string needs_of(Problem const& problem) {
    Request const& request = problem.request;
    ModelCard const& card = request.model_card;
    std::uint32_t const wish = request.settings.context_length;
    std::uint32_t const context = wish == 0 ? context_min : wish;
    Cache const cache{.tokens = context, .type = request.settings.cache_type};
    std::string text;
    if (auto const* const whole = cut_of(card, Sharding::pipeline, 1)) {
        auto const stage = stage_bytes(card, cache, 0, 1);
        text = "On one node it needs " + format_size(stage.with(card.n_layers)) + " (weights " +
               format_size(whole->needs[0].weight_bytes) + ") with " + std::to_string(context) +
               " tokens of context";
    } else {
        text = "It needs " + format_size(card.storage_size.in_bytes) + " for its weights, " +
               format_size(kv_cache_bytes(card, cache)) + " for " + std::to_string(context) +
               " tokens of context, and " + format_size(overhead_bytes(card)) +
               " on each node to run";
    }
    if (problem.draft != nullptr) {
        text += "; its draft model " + format_size(draft_bytes(*problem.draft, context)) + " on " +
                problem.nodes.front().label;
    }
    return text + ".";
}

Error refusal(Request const& request, std::string const& why, Errc code = Errc::conflict) {
    return {code, "cannot place " + request.model_card.model_id.value() + ": " + why};
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

Error no_room(Problem const& problem, Nodes const& nodes) {
    bool const fixed = problem.request.settings.context_length != 0;
    return refusal(
        problem.request,
        "not enough free memory. " + needs_of(problem) + " " + numbers_of(nodes) +
            first_refusal(problem.request, nodes.eligible.size()) +
            " Close other programs, delete an instance, add a node, " +
            (fixed ? "ask for a shorter context, " : "") + "or choose a smaller quantization."
    );
}

Error no_draft(Request const& request) {
    return refusal(
        request,
        "no node that can run it has its draft model " + request.settings.draft_model->value() +
            " on its disk. Bring it to a models directory of one of them, or ask for none."
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

// With the figures of this cut alone: the document goes to everyone.
ModelCard card_for(Request const& request, std::size_t ranks) {
    ModelCard card = request.model_card;
    std::erase_if(card.cuts, [&](ModelCut const& cut) {
        return cut.ranks != ranks || cut.sharding != sharding_of(request, ranks);
    });
    return card;
}

ShardMetadata shard(Request const& request, Cut const& cut, std::size_t rank) {
    ModelCard const card = card_for(request, cut.shares.size());
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
        .context_length = cut.context_length,
        .settings = request.settings
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

} // namespace

Result<Instance> place(
    State const& state,
    Observations const& observations,
    std::set<NodeId> const& heard,
    Request const& request
) {
    if (std::string const why = impossible(request); !why.empty()) {
        return refusal(request, why + ".", Errc::invalid_argument);
    }
    Nodes nodes = consider(state, observations, heard, request.model_card);
    if (nodes.eligible.size() < std::max(request.min_nodes, 1u)) {
        return too_few(request, nodes);
    }
    if (std::string const why = uncuttable(request, nodes.eligible.size()); !why.empty()) {
        return refusal(request, why + ".", Errc::invalid_argument);
    }
    Problem problem{.request = request, .nodes = nodes.eligible};
    if (auto const& draft = request.settings.draft_model) {
        problem.draft = lead_with_draft(nodes.eligible, observations, *draft);
        if (problem.draft == nullptr) {
            return no_draft(request);
        }
    }
    auto const found = best_cut(problem);
    if (!found) {
        return no_room(problem, nodes);
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
    if (!is_well_formed(instance)) {
        return 0; // A document from outside.
    }
    Cache const cache{.tokens = context_length(instance), .type = settings(instance).cache_type};
    auto const shares = shares_by_rank(instance);
    return std::visit(
        Overloaded{
            [&](PipelineShardMetadata const& stage) -> std::uint64_t {
                auto const ranks = static_cast<std::uint32_t>(shares.size());
                return ranks > stage.model_card.n_layers
                           ? 0
                           : stage_bytes(stage.model_card, cache, stage.device_rank, ranks)
                                 .with(share_of(stage));
            },
            [&](TensorShardMetadata const& part) -> std::uint64_t {
                bool const empty = std::ranges::count(shares, 0u) == std::ssize(shares);
                return empty ? 0
                             : tensor_rank_bytes(part.model_card, cache, shares, part.device_rank);
            },
        },
        found->second
    );
}

} // namespace exo::placement
