// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "core/placement/memory.hpp"
#include "core/placement/nodes.hpp"
#include "core/placement/placement.hpp"
#include "examples.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace exo::placement {
namespace {

using namespace model;
using examples::card;
using examples::Cluster;
using examples::gib;
using examples::mib;
using examples::node;
using examples::request;

Result<Instance> place(Cluster const& cluster, Request const& asked) {
    return placement::place(cluster.state, cluster.observations, cluster.heard, asked);
}

std::vector<std::string> names(Instance const& instance) {
    std::vector<std::string> names;
    for (auto const& node : nodes_by_rank(instance)) {
        names.push_back(node.value());
    }
    return names;
}

PipelineShardMetadata stage(Instance const& instance, std::string const& node) {
    auto const& shards = shard_assignments(instance).runner_to_shard;
    return std::get<PipelineShardMetadata>(shards.at(*runner_of(instance, NodeId(node))));
}

// The text of a refusal with this code; empty if it was placed.
std::string refusal(Cluster const& cluster, Request const& asked, Errc code = Errc::conflict) {
    auto const instance = place(cluster, asked);
    if (instance) {
        return {};
    }
    EXPECT_EQ(instance.error().code(), code);
    return instance.error().text();
}

TEST(Place, one_node_that_holds_the_model_is_enough) {
    Cluster cluster;
    cluster.add(node("a", 16 * gib)).add(node("b", 16 * gib)).add(node("c", 24 * gib));
    auto const instance = place(cluster, request());
    ASSERT_TRUE(instance) << instance.error().text();
    EXPECT_EQ(names(*instance), std::vector<std::string>{"c"});
    auto const shard = stage(*instance, "c");
    EXPECT_EQ(shard.start_layer, 0);
    EXPECT_EQ(shard.end_layer, 28);
    EXPECT_EQ(shard.world_size, 1);
    EXPECT_EQ(context_length(*instance), context_default);
}

TEST(Place, equal_nodes_are_taken_by_id) {
    Cluster cluster;
    cluster.add(node("b", 16 * gib)).add(node("a", 16 * gib));
    EXPECT_EQ(names(place(cluster, request()).value()), std::vector<std::string>{"a"});
}

TEST(Place, two_nodes_are_taken_when_one_cannot_hold_it) {
    Cluster cluster;
    cluster.add(node("a", 2 * gib)).add(node("b", 2500 * mib));
    auto const instance = place(cluster, request());
    ASSERT_TRUE(instance) << instance.error().text();
    EXPECT_EQ(names(*instance), (std::vector<std::string>{"b", "a"}));
}

// specs/engine.md: logits are local to the rank that samples.
TEST(Place, rank_0_holds_the_last_layers_and_rank_1_the_first) {
    Cluster cluster;
    cluster.add(node("a", 16 * gib)).add(node("b", 15 * gib)).add(node("c", 14 * gib));
    auto const instance = place(cluster, request(3));
    ASSERT_TRUE(instance) << instance.error().text();
    EXPECT_EQ(names(*instance), (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(stage(*instance, "b").start_layer, 0);
    EXPECT_EQ(stage(*instance, "b").end_layer, stage(*instance, "c").start_layer);
    EXPECT_EQ(stage(*instance, "c").end_layer, stage(*instance, "a").start_layer);
    EXPECT_EQ(stage(*instance, "a").end_layer, 28);
}

TEST(Place, min_nodes_asks_for_more_than_are_needed) {
    Cluster cluster;
    cluster.add(node("a", 32 * gib)).add(node("b", 32 * gib));
    auto const instance = place(cluster, request(2));
    ASSERT_TRUE(instance) << instance.error().text();
    EXPECT_EQ(names(*instance).size(), 2);
    EXPECT_TRUE(is_well_formed(*instance));
    EXPECT_EQ(shares_by_rank(*instance), (std::vector<std::uint64_t>{14, 14}));
}

TEST(Place, a_tensor_instance_has_equal_shares_and_all_layers_everywhere) {
    Cluster cluster;
    cluster.add(node("a", 32 * gib)).add(node("b", 16 * gib));
    Request asked = request(2);
    asked.sharding = Sharding::tensor;
    auto const instance = place(cluster, asked);
    ASSERT_TRUE(instance) << instance.error().text();
    EXPECT_EQ(shares_by_rank(*instance), (std::vector<std::uint64_t>{1, 1}));
    for (auto const& [runner, shard] : shard_assignments(*instance).runner_to_shard) {
        auto const& part = std::get<TensorShardMetadata>(shard);
        EXPECT_EQ(part.start_layer, 0);
        EXPECT_EQ(part.end_layer, 28);
    }
}

TEST(Place, tensor_on_one_node_is_a_pipeline_of_one) {
    Cluster cluster;
    cluster.add(node("a", 32 * gib));
    Request asked = request();
    asked.sharding = Sharding::tensor;
    EXPECT_EQ(stage(place(cluster, asked).value(), "a").end_layer, 28);
}

TEST(Place, tensor_shares_follow_memory_when_equal_ones_do_not_fit) {
    Cluster cluster;
    cluster.add(node("a", 6 * gib)).add(node("b", 1400 * mib));
    Request asked = request(2);
    asked.sharding = Sharding::tensor;
    auto const instance = place(cluster, asked);
    ASSERT_TRUE(instance) << instance.error().text();
    auto const shares = shares_by_rank(*instance);
    EXPECT_GT(shares[0], shares[1]);
}

TEST(Place, context_shrinks_before_another_node_is_taken) {
    // 8,192 tokens are 896 MiB; both nodes together have room for them, one alone has not.
    Cluster cluster;
    cluster.add(node("a", 28 * 100 * mib + 1000 * mib)).add(node("b", 3 * gib));
    auto const instance = place(cluster, request());
    ASSERT_TRUE(instance) << instance.error().text();
    EXPECT_EQ(names(*instance), std::vector<std::string>{"a"});
    EXPECT_LT(context_length(*instance), context_default);
    EXPECT_GE(context_length(*instance), context_useful);
}

TEST(Place, context_is_never_longer_than_the_model_was_trained_for) {
    Cluster cluster;
    cluster.add(node("a", 32 * gib));
    Request asked = request();
    asked.model_card.context_length = 1000;
    EXPECT_EQ(context_length(place(cluster, asked).value()), 1000);
}

TEST(Place, the_instance_carries_what_was_asked) {
    Cluster cluster;
    cluster.add(node("1", 32 * gib)).add(node("2", 32 * gib));
    Request asked = request(2);
    asked.replaces = InstanceId("old");
    auto const instance = std::get<MlxRingInstance>(place(cluster, asked).value());
    EXPECT_EQ(instance.instance_id, InstanceId("i"));
    EXPECT_EQ(instance.wish_id, WishId("w"));
    EXPECT_EQ(instance.replaces, InstanceId("old"));
    EXPECT_EQ(instance.generation, 1);
    EXPECT_EQ(instance.shard_assignments.model_id, ModelId("m"));
    EXPECT_EQ(
        instance.hosts_by_node.at(NodeId("2")), (std::vector<Host>{{.ip = "10.0.0.2", .port = 0}})
    );
}

TEST(Place, addresses_on_cables_come_first_and_loopback_last) {
    Cluster cluster;
    NodeInfo info = node("a", 32 * gib);
    info.interfaces = {
        {.name = "lo", .ip_address = "127.0.0.1"},
        {.name = "docker0", .ip_address = "172.17.0.1", .interface_type = "ethernet"},
        {.name = "wlan0", .ip_address = "10.0.1.1", .interface_type = "wifi"},
        {.name = "eth0", .ip_address = "10.0.0.1", .interface_type = "ethernet"},
        {.name = "eth0", .ip_address = "fe80::1", .interface_type = "ethernet"},
        {.name = "eth9", .ip_address = "10.0.0.1"},
    };
    cluster.add(info);
    auto const instance = std::get<MlxRingInstance>(place(cluster, request()).value());
    std::vector<std::string> ips;
    for (auto const& host : instance.hosts_by_node.at(NodeId("a"))) {
        ips.push_back(host.ip);
    }
    EXPECT_EQ(
        ips,
        (std::vector<std::string>{"10.0.0.1", "fe80::1", "10.0.1.1", "172.17.0.1", "127.0.0.1"})
    );
}

TEST(Place, memory_promised_to_a_loading_instance_is_not_free) {
    Cluster cluster;
    cluster.add(node("a", 6 * gib));
    cluster.state.instances[InstanceId("x")] = examples::instance("x", "wx", {"a"});
    EXPECT_NE(
        refusal(cluster, request()).find("promised to instances that load"), std::string::npos
    );
    cluster.state.runners[RunnerId("x-0")] = RunnerReady{}; // Its memory shows as used now.
    EXPECT_EQ(refusal(cluster, request()), "");
}

TEST(Place, a_refusal_has_the_numbers_of_every_node_and_a_remedy) {
    Cluster cluster;
    NodeInfo named = node("12D3KooWabcdef", 300 * mib);
    named.identity.friendly_name = "laptop";
    cluster.add(node("a", 200 * mib)).add(named);
    EXPECT_EQ(
        refusal(cluster, request()),
        "cannot place m: not enough free memory. It needs 2.7 GiB for its weights, 56.0 MiB for "
        "512 "
        "tokens of context, and 318.5 MiB on each node to run. laptop (abcdef) has 300.0 MiB free; "
        "a "
        "has 200.0 MiB free. Close other programs, delete an instance, add a node, or choose a "
        "smaller quantization."
    );
}

TEST(Place, every_node_that_cannot_take_part_is_named_with_the_reason) {
    Cluster cluster;
    NodeInfo lazy = node("lazy", 32 * gib);
    lazy.worker = false;
    NodeInfo empty = node("empty", 32 * gib);
    empty.models.clear();
    cluster.add(lazy).add(empty).add(node("silent", 32 * gib)).add(node("joining", 32 * gib));
    cluster.heard.erase(NodeId("silent"));
    cluster.state.members.erase(NodeId("joining"));
    cluster.add(node("unseen", 32 * gib));
    cluster.observations.erase(NodeId("unseen"));
    std::string const text = refusal(cluster, request());
    for (auto const* reason :
         {"no node can run it now",
          "lazy runs no models (--no-worker)",
          "empty does not have the model on its disk",
          "silent was not heard in the last seconds",
          "joining is still joining the cluster",
          "unseen has not told its memory yet"}) {
        EXPECT_NE(text.find(reason), std::string::npos) << reason << " in: " << text;
    }
}

TEST(Place, more_nodes_than_there_are_cannot_be_had) {
    Cluster cluster;
    cluster.add(node("a", 32 * gib));
    std::string const text = refusal(cluster, request(2));
    EXPECT_NE(text.find("2 nodes were asked for (min_nodes), 1 can take part"), std::string::npos)
        << text;
}

TEST(Place, an_empty_cluster_says_so) {
    EXPECT_NE(refusal({}, request()).find("No node is known."), std::string::npos);
}

// What no cluster could ever do, with the words of the refusal.
struct Row {
    char const* name;
    void (*change)(Request&);
    char const* words;
};

class Impossible : public testing::TestWithParam<Row> {};

TEST_P(Impossible, is_refused_whatever_the_nodes) {
    Cluster cluster;
    for (std::string const id : {"a", "b", "c", "d"}) {
        cluster.add(node(id, 64 * gib));
    }
    Request asked = request();
    GetParam().change(asked);
    std::string const text = refusal(cluster, asked, Errc::invalid_argument);
    EXPECT_NE(text.find(GetParam().words), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(
    Requests,
    Impossible,
    testing::Values(
        Row{"no_layers", [](Request& r) { r.model_card.n_layers = 0; }, "lacks layers or size"},
        Row{"no_size", [](Request& r) { r.model_card.storage_size = {}; }, "lacks layers or size"},
        Row{"absurd_layers", [](Request& r) { r.model_card.n_layers = 1u << 30; }, "lacks layers"},
        Row{"rdma", [](Request& r) { r.instance_meta = InstanceMeta::mlx_jaccl; }, "use MlxRing"},
        Row{"no_tensor",
            [](Request& r) {
                r.sharding = Sharding::tensor;
                r.model_card.supports_tensor = false;
                r.min_nodes = 2;
            },
            "use Pipeline"},
        Row{"more_ranks_than_layers",
            [](Request& r) {
                r.model_card.n_layers = 3;
                r.min_nodes = 4;
            },
            "takes at most 3 (its layers)"},
        Row{"too_many_ranks", [](Request& r) { r.min_nodes = 16; }, "takes at most 15"},
        Row{"what_llama_cpp_cannot_cut",
            [](Request& r) {
                r.sharding = Sharding::tensor;
                r.min_nodes = 2;
                for (std::uint32_t ranks = 2; ranks <= 16; ++ranks) {
                    r.model_card.cuts.push_back(
                        {.sharding = Sharding::tensor, .ranks = ranks, .refusal = "odd heads"}
                    );
                }
            },
            "it cannot be cut by tensor into 2 parts: odd heads; use Pipeline sharding"},
        Row{"what_llama_cpp_cannot_run",
            [](Request& r) { r.model_card.cuts = {{.ranks = 1, .refusal = "no such thing"}}; },
            "it cannot be run: no such thing."}
    ),
    [](auto const& row) { return row.param.name; }
);

TEST(Place, the_context_that_was_asked_for_is_given) {
    Cluster cluster;
    cluster.add(node("a", 16 * gib));
    auto asked = request();
    asked.settings.context_length = 20'000;
    auto const instance = place(cluster, asked);
    ASSERT_TRUE(instance) << instance.error().text();
    EXPECT_EQ(context_length(*instance), 20'000u);
    EXPECT_EQ(settings(*instance), asked.settings);
}

TEST(Place, a_context_that_does_not_fit_is_refused_not_shortened) {
    Cluster cluster;
    cluster.add(node("a", 6 * gib));
    auto asked = request();
    ASSERT_TRUE(place(cluster, asked));
    asked.settings.context_length = 32'768;
    auto const text = refusal(cluster, asked);
    EXPECT_NE(text.find("32768 tokens of context"), std::string::npos) << text;
    EXPECT_NE(text.find("ask for a shorter context"), std::string::npos) << text;
}

TEST(Place, a_context_beyond_what_the_model_was_trained_for_is_refused) {
    Cluster cluster;
    cluster.add(node("a", 64 * gib));
    auto asked = request();
    asked.settings.context_length = 32'769;
    auto const text = refusal(cluster, asked, Errc::invalid_argument);
    EXPECT_NE(text.find("trained for 32768"), std::string::npos) << text;
}

TEST(Place, a_cache_of_q8_0_takes_17_parts_of_32) {
    constexpr std::uint32_t tokens = 32'768;
    std::uint64_t const f16 = kv_cache_bytes(card(), {.tokens = tokens});
    std::uint64_t const q8_0 = kv_cache_bytes(card(), {tokens, CacheType::q8_0});
    EXPECT_EQ(q8_0, f16 / 32 * 17);
    // A node with room for the one and not for the other.
    std::uint64_t const exact = overhead_bytes(card()) + 2 * vocabulary_bytes(card()) +
                                28 * layer_bytes(card(), {tokens, CacheType::q8_0});
    Cluster cluster;
    cluster.add(node("a", exact));
    auto asked = request();
    asked.settings = {.context_length = tokens, .cache_type = CacheType::q8_0};
    auto const instance = place(cluster, asked);
    ASSERT_TRUE(instance) << instance.error().text();
    RunnerId const& runner = *runner_of(*instance, NodeId("a"));
    EXPECT_EQ(memory_bytes_needed(*instance, runner), exact);
    asked.settings.cache_type = CacheType::f16;
    EXPECT_NE(refusal(cluster, asked), "");
}

ModelCard draft_card() {
    auto draft = card("draft");
    draft.storage_size.in_bytes = 400 * mib;
    return draft;
}

TEST(Place, rank_0_is_a_node_that_has_the_draft_model) {
    Cluster cluster;
    auto holder = node("c", 8 * gib);
    holder.models.push_back(draft_card());
    cluster.add(node("a", 32 * gib)).add(node("b", 16 * gib)).add(holder);
    auto asked = request(2);
    asked.settings.draft_model = ModelId("draft");
    auto const instance = place(cluster, asked);
    ASSERT_TRUE(instance) << instance.error().text();
    EXPECT_EQ(names(*instance), (std::vector<std::string>{"c", "a"}));
}

TEST(Place, a_draft_model_that_no_node_has_is_refused_by_name) {
    Cluster cluster;
    cluster.add(node("a", 32 * gib));
    auto asked = request();
    asked.settings.draft_model = ModelId("draft");
    auto const text = refusal(cluster, asked);
    EXPECT_NE(text.find("draft model draft"), std::string::npos) << text;
}

TEST(Place, a_draft_model_takes_its_room_on_rank_0) {
    std::uint64_t const exact = overhead_bytes(card()) + 2 * vocabulary_bytes(card()) +
                                28 * layer_bytes(card(), {.tokens = 4096}) +
                                draft_bytes(draft_card(), 4096);
    auto asked = request();
    asked.settings = {.context_length = 4096, .draft_model = ModelId("draft")};
    for (std::uint64_t const missing : {0u, 1u}) {
        Cluster cluster;
        auto holder = node("a", exact - missing);
        holder.models.push_back(draft_card());
        cluster.add(holder);
        auto const text = refusal(cluster, asked);
        EXPECT_EQ(text.empty(), missing == 0) << text;
        EXPECT_EQ(text.find("its draft model") == std::string::npos, missing == 0) << text;
    }
}

TEST(Place, the_draft_of_an_instance_that_loads_is_promised_too) {
    Cluster cluster;
    auto holder = node("a", 32 * gib);
    holder.models.push_back(draft_card());
    cluster.add(holder);
    auto asked = request();
    asked.settings = {.context_length = 4096, .draft_model = ModelId("draft")};
    auto const instance = place(cluster, asked).value();
    cluster.state.instances[instance_id(instance)] = instance;
    auto const nodes = consider(cluster.state, cluster.observations, cluster.heard, card());
    EXPECT_EQ(
        nodes.eligible.at(0).promised_bytes,
        memory_bytes_needed(instance, *runner_of(instance, NodeId("a"))) +
            draft_bytes(draft_card(), 4096)
    );
}

TEST(Place, a_giant_is_refused_for_its_size) {
    Cluster cluster;
    cluster.add(node("a", 64 * gib));
    Request asked = request();
    asked.model_card.storage_size = {UINT64_MAX};
    asked.model_card.kv_bytes_per_token = UINT64_MAX;
    asked.model_card.vocabulary_size = UINT32_MAX;
    asked.model_card.hidden_size = UINT32_MAX;
    EXPECT_NE(refusal(cluster, asked).find("not enough free memory"), std::string::npos);
}

// ---- with llama.cpp's own verdicts

ModelCut tensor_cut(std::uint32_t ranks, std::string refusal) {
    ModelCut cut{.sharding = Sharding::tensor, .ranks = ranks, .refusal = std::move(refusal)};
    if (cut.refusal.empty()) {
        cut.needs.assign(ranks, {.weight_bytes = 1400 * mib});
    }
    return cut;
}

TEST(PlaceByVerdict, a_number_of_ranks_that_is_refused_is_passed_over) {
    Cluster cluster;
    cluster.add(node("a", 8 * gib)).add(node("b", 8 * gib)).add(node("c", 8 * gib));
    Request asked = request(2);
    asked.sharding = Sharding::tensor;
    asked.model_card.cuts = {tensor_cut(2, "odd heads"), tensor_cut(3, "")};
    auto const instance = place(cluster, asked);
    ASSERT_TRUE(instance) << instance.error().text();
    EXPECT_EQ(names(*instance).size(), 3u);
}

TEST(PlaceByVerdict, it_overrules_what_the_card_lets_one_expect) {
    Cluster cluster;
    cluster.add(node("a", 8 * gib)).add(node("b", 8 * gib));
    Request asked = request(2);
    asked.sharding = Sharding::tensor;
    asked.model_card.supports_tensor = false;
    asked.model_card.cuts = {tensor_cut(2, "")};
    EXPECT_EQ(refusal(cluster, asked), "");
}

TEST(PlaceByVerdict, what_has_not_been_tried_by_tensor_is_not_done) {
    Cluster cluster;
    cluster.add(node("a", 8 * gib)).add(node("b", 8 * gib));
    Request asked = request(2);
    asked.sharding = Sharding::tensor;
    asked.model_card.cuts = {{.ranks = 1, .needs = {{.weight_bytes = 2800 * mib}}}};
    EXPECT_NE(
        refusal(cluster, asked, Errc::invalid_argument).find("into 2 parts has not been tried"),
        std::string::npos
    );
}

TEST(PlaceByVerdict, its_figures_decide_what_fits) {
    Cluster cluster;
    cluster.add(node("a", 3 * gib));
    Request asked = request();
    EXPECT_NE(refusal(cluster, asked), ""); // By the estimate, on the safe side.
    asked.model_card.cuts = {
        {.ranks = 1, .layer_bytes = 70 * mib, .needs = {{.weight_bytes = 2100 * mib}}}
    };
    EXPECT_EQ(refusal(cluster, asked), "");
    asked.model_card.cuts[0].needs[0].compute_bytes = 4 * gib;
    EXPECT_NE(refusal(cluster, asked).find("not enough free memory"), std::string::npos);
}

TEST(PlaceByVerdict, a_lack_of_memory_names_the_cut_that_would_have_helped) {
    Cluster cluster;
    cluster.add(node("a", 2 * gib)).add(node("b", 2 * gib));
    Request asked = request();
    asked.sharding = Sharding::tensor;
    asked.model_card.cuts = {
        {.ranks = 1, .layer_bytes = 90 * mib, .needs = {{.weight_bytes = 2800 * mib}}},
        tensor_cut(2, "odd heads")
    };
    EXPECT_NE(
        refusal(cluster, asked)
            .find("Over 2 nodes it cannot be cut by tensor into 2 parts: odd heads."),
        std::string::npos
    ) << refusal(cluster, asked);
}

TEST(PlaceByVerdict, the_instance_carries_the_figures_of_its_own_cut_alone) {
    Cluster cluster;
    cluster.add(node("a", 8 * gib)).add(node("b", 8 * gib));
    Request asked = request(2);
    asked.sharding = Sharding::tensor;
    asked.model_card.cuts = {tensor_cut(2, ""), tensor_cut(3, "")};
    auto const instance = place(cluster, asked);
    ASSERT_TRUE(instance) << instance.error().text();
    EXPECT_EQ(model_card(*instance).cuts, std::vector{tensor_cut(2, "")});
    for (auto const& [id, runner] : shard_assignments(*instance).node_to_runner) {
        EXPECT_GE(memory_bytes_needed(*instance, runner), 1400 * mib);
    }
}

Cluster random_cluster(Random& random) {
    Cluster cluster;
    for (std::uint64_t i = 1 + random.below(6); i > 0; --i) {
        cluster.add(node(std::string(1, static_cast<char>('a' + i)), random.below(8 * gib)));
    }
    return cluster;
}

Request random_request(Random& random) {
    Request asked = request(static_cast<std::uint32_t>(1 + random.below(4)));
    asked.sharding = random.chance(1, 2) ? Sharding::pipeline : Sharding::tensor;
    asked.model_card.n_layers = static_cast<std::uint32_t>(1 + random.below(60));
    asked.model_card.storage_size = {1 + random.below(12 * gib)};
    asked.model_card.kv_bytes_per_token = random.below(1u << 20);
    asked.model_card.num_key_value_heads = static_cast<std::uint32_t>(random.below(9));
    asked.model_card.context_length = static_cast<std::uint32_t>(random.below(40'000));
    return asked;
}

TEST(PlaceProperties, a_placement_is_whole_fits_and_keeps_to_the_request) {
    std::size_t placed = 0;
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        Random random(seed);
        Cluster const cluster = random_cluster(random);
        Request const asked = random_request(random);
        auto const instance = place(cluster, asked);
        if (!instance) {
            continue;
        }
        ++placed;
        ASSERT_TRUE(is_well_formed(*instance)) << "seed " << seed;
        ASSERT_GE(nodes_by_rank(*instance).size(), asked.min_nodes) << "seed " << seed;
        std::uint64_t layers = 0;
        for (auto const& [id, runner] : shard_assignments(*instance).node_to_runner) {
            ASSERT_LE(
                memory_bytes_needed(*instance, runner),
                cluster.observations.at(id).memory.ram_available.in_bytes
            ) << "seed "
              << seed;
            auto const& shard = shard_assignments(*instance).runner_to_shard.at(runner);
            if (auto const* const stage = std::get_if<PipelineShardMetadata>(&shard)) {
                ASSERT_LT(stage->start_layer, stage->end_layer) << "seed " << seed;
                layers += stage->end_layer - stage->start_layer;
            } else {
                layers = asked.model_card.n_layers;
            }
        }
        ASSERT_EQ(layers, asked.model_card.n_layers) << "seed " << seed;
    }
    EXPECT_GT(placed, 500); // The property is not empty.
}

TEST(PlaceProperties, more_memory_never_turns_a_placement_into_a_refusal) {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        Random random(seed);
        Cluster cluster = random_cluster(random);
        Request const asked = random_request(random);
        if (!place(cluster, asked)) {
            continue;
        }
        for (auto& [id, info] : cluster.observations) {
            info.memory.ram_available.in_bytes += gib;
        }
        ASSERT_TRUE(place(cluster, asked)) << "seed " << seed;
    }
}

// All nodes compute alike: friendly names, other members' news or the order of gossip do not
// matter.
TEST(PlaceProperties, what_does_not_matter_does_not_change_the_placement) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        Random random(seed);
        Cluster const cluster = random_cluster(random);
        Request const asked = random_request(random);
        Cluster other;
        for (auto const& [id, info] : cluster.observations) {
            NodeInfo changed = info;
            changed.sequence = random.next();
            std::ranges::reverse(changed.models);
            other.add(changed);
        }
        auto const one = place(cluster, asked);
        auto const two = place(other, asked);
        ASSERT_EQ(one.has_value(), two.has_value()) << "seed " << seed;
        if (one) {
            ASSERT_TRUE(*one == *two) << "seed " << seed;
        } else {
            ASSERT_EQ(one.error().text(), two.error().text()) << "seed " << seed;
        }
    }
}

} // namespace
} // namespace exo::placement
