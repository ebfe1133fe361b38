// SPDX-License-Identifier: Apache-2.0
#include "node/probe/output.hpp"
#include "node/probe/probe_service.hpp"

#include <gtest/gtest.h>

namespace exo::node {
namespace {

using model::Sharding;

constexpr Way two{.sharding = Sharding::tensor, .ranks = 2};

TEST(ReadProbeOutput, figures_of_every_rank_are_a_verdict) {
    auto const cut = read_probe_output(
        "a library says hello\n"
        R"({"ok":true,"reason":"","architecture":"llama","layer_bytes":7,"ranks":[)"
        R"({"weight_bytes":10,"kv_bytes_per_token":2,"compute_bytes":3,"ranges":[]},)"
        R"({"weight_bytes":11,"kv_bytes_per_token":1,"compute_bytes":4}]})"
        "\n",
        two
    );
    ASSERT_TRUE(cut) << cut.error().text();
    model::ModelCut const expected{
        .sharding = Sharding::tensor,
        .ranks = 2,
        .layer_bytes = 7,
        .needs = {{10, 2, 3}, {11, 1, 4}}
    };
    EXPECT_EQ(*cut, expected);
}

TEST(ReadProbeOutput, a_refusal_is_a_verdict_with_its_reason) {
    auto const cut = read_probe_output(R"({"ok":false,"reason":"odd heads","ranks":[]})", two);
    ASSERT_TRUE(cut) << cut.error().text();
    EXPECT_EQ(cut->refusal, "odd heads");
    EXPECT_TRUE(cut->needs.empty());
}

TEST(ReadProbeOutput, a_refusal_is_never_empty_nor_without_end) {
    EXPECT_NE(read_probe_output(R"({"ok":false,"reason":""})", two)->refusal, "");
    auto const text = R"({"ok":false,"reason":")" + std::string(10'000, 'x') + R"("})";
    EXPECT_EQ(read_probe_output(text, two)->refusal.size(), refusal_bytes_max);
}

TEST(ReadProbeOutput, anything_else_is_no_verdict) {
    for (auto const* text :
         {"",
          "no model here\n",
          "{\"ok\":true",
          "{\"ok\":true}",
          R"({"ok":true,"ranks":[{"weight_bytes":1,"kv_bytes_per_token":1,"compute_bytes":1}]})",
          R"({"ok":true,"ranks":[{"weight_bytes":-1},{}]})"}) {
        auto const cut = read_probe_output(text, two);
        ASSERT_FALSE(cut) << text;
        EXPECT_EQ(cut.error().code(), Errc::protocol);
    }
}

TEST(WaysToTry, one_rank_and_what_there_are_nodes_for) {
    model::ModelCard card;
    card.n_layers = 30;
    auto const pipeline = [](std::uint32_t ranks) { return Way{Sharding::pipeline, ranks}; };
    EXPECT_EQ(ways_to_try(card, Sharding::pipeline, 0), std::vector{pipeline(1)});
    EXPECT_EQ(ways_to_try(card, Sharding::pipeline, 2), (std::vector{pipeline(1), pipeline(2)}));
    EXPECT_EQ(ways_to_try(card, Sharding::pipeline, 100).size(), 4u);
    EXPECT_EQ(ways_to_try(card, Sharding::tensor, 2), (std::vector{pipeline(1), two}));
    EXPECT_EQ(ways_to_try(card, Sharding::tensor, 100).size(), 16u);
    card.n_layers = 2;
    EXPECT_EQ(ways_to_try(card, Sharding::pipeline, 4).size(), 2u);
}

TEST(NodesWith, those_that_have_the_model_oneself_first) {
    model::Observations observations;
    for (auto const* id : {"a", "b", "c"}) {
        observations[model::NodeId(id)].models.resize(1);
        observations[model::NodeId(id)].models[0].model_id = model::ModelId("m");
    }
    observations[model::NodeId("d")];
    auto const nodes = nodes_with(observations, model::NodeId("b"), model::ModelId("m"));
    EXPECT_EQ(nodes, (std::vector{model::NodeId("b"), model::NodeId("a"), model::NodeId("c")}));
}

} // namespace
} // namespace exo::node
