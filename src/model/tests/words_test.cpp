// SPDX-License-Identifier: Apache-2.0
//
// What instances, tasks and statuses have in common.
#include "model/instance.hpp"
#include "model/runner_status.hpp"
#include "model/task.hpp"

#include <gtest/gtest.h>

namespace exo::model {
namespace {

// Rank 0 on "z", rank 1 on "a": the order of ranks is not that of ids.
MlxRingInstance two_ranks() {
    MlxRingInstance instance{.instance_id = InstanceId("i"), .wish_id = WishId("w")};
    auto& assignments = instance.shard_assignments;
    assignments.node_to_runner = {{NodeId("z"), RunnerId("r0")}, {NodeId("a"), RunnerId("r1")}};
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
        assignments.runner_to_shard[RunnerId("r" + std::to_string(rank))] = PipelineShardMetadata{
            .model_card = {.model_id = ModelId("m")}, .device_rank = rank, .world_size = 2
        };
    }
    return instance;
}

PipelineShardMetadata& shard(MlxRingInstance& instance, char const* runner) {
    auto& shards = instance.shard_assignments.runner_to_shard;
    return std::get<PipelineShardMetadata>(shards.at(RunnerId(runner)));
}

TEST(Instance, nodes_are_listed_by_rank) {
    EXPECT_EQ(nodes_by_rank(two_ranks()), (std::vector{NodeId("z"), NodeId("a")}));
}

TEST(Instance, tells_its_parts) {
    Instance instance = two_ranks();
    EXPECT_EQ(instance_id(instance), InstanceId("i"));
    EXPECT_EQ(wish_id(instance), WishId("w"));
    EXPECT_EQ(model_card(instance).model_id, ModelId("m"));
    EXPECT_EQ(*runner_of(instance, NodeId("a")), RunnerId("r1"));
    EXPECT_EQ(runner_of(instance, NodeId("b")), nullptr);
    set_generation(instance, 4);
    EXPECT_EQ(generation(instance), 4);
}

TEST(Instance, an_empty_one_has_an_empty_card) {
    EXPECT_EQ(model_card(MlxRingInstance{}), ModelCard{});
}

TEST(Instance, is_well_formed_with_every_rank_once) {
    EXPECT_TRUE(is_well_formed(two_ranks()));
}

TEST(Instance, is_not_well_formed_otherwise) {
    EXPECT_FALSE(is_well_formed(MlxRingInstance{}));

    auto same_rank = two_ranks();
    shard(same_rank, "r1").device_rank = 0;
    EXPECT_FALSE(is_well_formed(same_rank));

    auto gap = two_ranks();
    shard(gap, "r1").device_rank = 2;
    EXPECT_FALSE(is_well_formed(gap));

    auto other_size = two_ranks();
    shard(other_size, "r1").world_size = 3;
    EXPECT_FALSE(is_well_formed(other_size));

    auto other_model = two_ranks();
    shard(other_model, "r1").model_card.model_id = ModelId("n");
    EXPECT_FALSE(is_well_formed(other_model));

    auto other_kind = two_ranks();
    other_kind.shard_assignments.runner_to_shard[RunnerId("r1")] = TensorShardMetadata{
        .model_card = {.model_id = ModelId("m")}, .device_rank = 1, .world_size = 2
    };
    EXPECT_FALSE(is_well_formed(other_kind));

    auto no_such_runner = two_ranks();
    no_such_runner.shard_assignments.node_to_runner[NodeId("a")] = RunnerId("r9");
    EXPECT_FALSE(is_well_formed(no_such_runner));

    auto runner_without_node = two_ranks();
    runner_without_node.shard_assignments.node_to_runner.erase(NodeId("a"));
    EXPECT_FALSE(is_well_formed(runner_without_node));
}

TEST(RunnerStatus, serves_when_ready_or_running) {
    EXPECT_TRUE(serves(RunnerReady{}));
    EXPECT_TRUE(serves(RunnerRunning{}));
    EXPECT_FALSE(serves(RunnerWarmingUp{}));
    EXPECT_FALSE(serves(RunnerFailed{}));
}

TEST(Task, four_statuses_are_final) {
    EXPECT_FALSE(is_terminal(TaskStatus::pending));
    EXPECT_FALSE(is_terminal(TaskStatus::running));
    EXPECT_TRUE(is_terminal(TaskStatus::complete));
    EXPECT_TRUE(is_terminal(TaskStatus::timed_out));
    EXPECT_TRUE(is_terminal(TaskStatus::failed));
    EXPECT_TRUE(is_terminal(TaskStatus::cancelled));
}

} // namespace
} // namespace exo::model
