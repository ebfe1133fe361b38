// SPDX-License-Identifier: Apache-2.0
//
// Ranks on a real GPU backend against ranks on the CPU, over the demo model. Only in a build that
// has one (-DEXO_GPU=...): `make test-vulkan` runs it on Vulkan, where no GPU is on Mesa's software
// driver. EXO_TEST_DEVICE names another device than the best one.
#include "engine/tests/rank_processes.hpp"
#include "engine/tests/test_model.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace exo::engine {
namespace {

// A GPU multiplies in other formats and orders than the CPU: 5e-5 on lavapipe.
constexpr double nmse_max = 2e-4;

ComputeOptions gpu_options() {
    // ggml lists drivers in software only when they are named.
    setenv("GGML_VK_VISIBLE_DEVICES", "0", /*overwrite=*/0);
    auto const* const wish = std::getenv("EXO_TEST_DEVICE");
    return {.device = wish != nullptr ? wish : "auto"};
}

std::string describe_gpu() {
    auto const bytes = run_ranks(1, [](collective::Group&) {
        auto made = make_local_compute(gpu_options());
        auto const text = made ? (*made)->describe() : made.error().text();
        auto const view = as_bytes(text);
        return Bytes(view.begin(), view.end());
    });
    return {bytes.begin(), bytes.end()};
}

// Which ranks have the GPU.
using Placing = std::function<bool(std::uint32_t rank)>;

std::vector<float>
logits_of_ranks(std::uint32_t ranks, model::Sharding sharding, Placing const& has_gpu) {
    return logits(ranks, [&](collective::Group& group) {
        LoadOptions options{.sharding = sharding, .compute = {.device = "cpu"}};
        if (has_gpu(group.rank())) {
            options.compute = gpu_options();
        }
        return logits_of(options, group);
    });
}

class GpuTest : public testing::Test {
protected:
    static void SetUpTestSuite() {
        if (!std::filesystem::exists(test_model())) {
            GTEST_SKIP() << "no test model at " << test_model();
        }
        auto const gpu = describe_gpu();
        if (gpu == "the CPU") {
            GTEST_SKIP() << "ggml finds no GPU, not even one in software, on this machine";
        }
        std::printf("%s\n", gpu.c_str());
        reference = new std::vector(
            logits_of_ranks(1, model::Sharding::pipeline, [](std::uint32_t) { return false; })
        );
    }

    static void expect_as_good(std::vector<float> const& values) {
        ASSERT_FALSE(values.empty());
        ASSERT_EQ(values.size(), reference->size());
        auto const error = nmse(values, *reference);
        std::printf("NMSE %.2e\n", error);
        EXPECT_LE(error, nmse_max);
        EXPECT_GT(error, 0) << "the GPU has computed nothing";
    }

    static inline std::vector<float> const* reference = nullptr;
};

TEST_F(GpuTest, one_rank_on_the_gpu) {
    expect_as_good(logits_of_ranks(1, model::Sharding::pipeline, [](auto) { return true; }));
}

TEST_F(GpuTest, a_pipeline_of_a_rank_with_a_gpu_and_one_without) {
    expect_as_good(logits_of_ranks(2, model::Sharding::pipeline, [](auto rank) {
        return rank == 1;
    }));
}

TEST_F(GpuTest, tensor_ranks_with_a_gpu_and_without) {
    expect_as_good(logits_of_ranks(2, model::Sharding::tensor, [](auto rank) { return rank == 1; })
    );
}

} // namespace
} // namespace exo::engine
