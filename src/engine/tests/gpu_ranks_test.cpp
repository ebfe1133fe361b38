// SPDX-License-Identifier: Apache-2.0
//
// A rank with a GPU and one without, over the demo model: as good as one rank on the CPU. The GPU
// is the foreign device, which has memory of its own, and of the operations as many as a test
// grants it.
#include "engine/cluster_device/tests/foreign_device.hpp"
#include "engine/tests/rank_processes.hpp"
#include "engine/tests/test_model.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <unistd.h>

namespace exo::engine {
namespace {

// Kernels for packed weights and others add up in different orders, and tensor ranks add sums.
constexpr double nmse_max = 1e-4;

using Check = std::function<bool(ForeignDevice::Counts const&)>;

// Rank 1 has the device, and fails when it does not pass the check in the end.
std::vector<float>
logits_with(ForeignDevice::Options const& device, LoadOptions options, Check const& check) {
    return logits(2, [&](collective::Group& group) {
        options.compute.device = "cpu";
        if (group.rank() != 1) {
            return logits_of(options, group);
        }
        ForeignDevice foreign(device);
        foreign.register_for_process();
        options.compute.device = device.name;
        auto const result = logits_of(options, group);
        if (!check(foreign.counts)) {
            std::fprintf(
                stderr,
                "%zu nodes on the device, %zu bytes to it\n",
                foreign.counts.nodes,
                foreign.counts.uploaded_bytes
            );
            _exit(1);
        }
        return result;
    });
}

class GpuRanksTest : public testing::Test {
protected:
    static void SetUpTestSuite() {
        if (!std::filesystem::exists(test_model())) {
            GTEST_SKIP() << "no test model at " << test_model();
        }
        if (reference != nullptr) {
            return;
        }
        reference = new std::vector(logits(1, [](collective::Group& group) {
            return logits_of({.compute = {.device = "cpu"}}, group);
        }));
    }

    static void expect_as_good(std::vector<float> const& values) {
        ASSERT_FALSE(values.empty());
        ASSERT_EQ(values.size(), reference->size());
        EXPECT_LE(nmse(values, *reference), nmse_max);
    }

    static inline std::vector<float> const* reference = nullptr;
};

class EitherShardingTest : public GpuRanksTest,
                           public testing::WithParamInterface<model::Sharding> {};

TEST_P(EitherShardingTest, a_gpu_that_can_do_all_computes_all_of_its_rank) {
    expect_as_good(logits_with({}, {.sharding = GetParam()}, [](auto const& counts) {
        // Of both long and short steps; and its half of the weights is there.
        return counts.nodes > 1000 && counts.uploaded_bytes > 30u << 20;
    }));
}

TEST_P(EitherShardingTest, operations_that_the_gpu_lacks_are_computed_by_the_cpu) {
    auto const lacks_some = [](ggml_tensor const* node) {
        return node->op != GGML_OP_FLASH_ATTN_EXT && node->op != GGML_OP_SET_ROWS &&
               node->op != GGML_OP_ROPE;
    };
    expect_as_good(logits_with(
        {.supports = lacks_some},
        {.sharding = GetParam()},
        [](auto const& counts) { return counts.nodes > 1000; }
    ));
}

TEST_P(EitherShardingTest, a_model_that_the_gpu_has_no_room_for_is_shared_with_the_cpu) {
    std::size_t const bytes = 40u << 20; // Cache, activations, and some of the layers.
    expect_as_good(logits_with(
        {.memory_bytes = bytes},
        {.sharding = GetParam()},
        [](auto const& counts) { return counts.nodes > 100; }
    ));
}

// 9 heads and 3 KV heads over shares of 5 to 1: in some layers the GPU has none, and adds zeros.
TEST_F(GpuRanksTest, a_gpu_whose_slice_of_a_layer_is_empty_adds_nothing) {
    expect_as_good(logits_with(
        {},
        {.sharding = model::Sharding::tensor, .shares = {5, 1}},
        [](auto const& counts) { return counts.nodes > 100; }
    ));
}

INSTANTIATE_TEST_SUITE_P(
    ,
    EitherShardingTest,
    testing::Values(model::Sharding::pipeline, model::Sharding::tensor),
    [](auto const& instance) {
        return std::string(instance.param == model::Sharding::pipeline ? "pipeline" : "tensor");
    }
);

} // namespace
} // namespace exo::engine
