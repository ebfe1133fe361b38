// SPDX-License-Identifier: Apache-2.0
//
// The numbers behind the answers: logits over ranks against those of one rank.
#include "engine/tests/rank_processes.hpp"
#include "engine/tests/test_model.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace exo::engine {
namespace {

std::vector<float> cpu_logits(
    model::Sharding sharding, std::uint32_t ranks, std::vector<std::uint64_t> const& shares = {}
) {
    return logits(ranks, [&](collective::Group& group) {
        return logits_of(
            {.sharding = sharding, .shares = shares, .compute = {.device = "cpu"}}, group
        );
    });
}

class EngineTest : public testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(test_model())) {
            GTEST_SKIP() << "no test model at " << test_model();
        }
    }
};

TEST_F(EngineTest, logits_of_a_pipeline_are_those_of_one_rank_bit_by_bit) {
    auto const reference = cpu_logits(model::Sharding::pipeline, 1);
    ASSERT_FALSE(reference.empty());
    for (std::uint32_t const ranks : {2u, 4u}) {
        EXPECT_EQ(cpu_logits(model::Sharding::pipeline, ranks), reference) << ranks << " ranks";
    }
}

TEST_F(EngineTest, logits_of_tensor_ranks_are_close_to_those_of_one) {
    auto const reference = cpu_logits(model::Sharding::pipeline, 1);
    ASSERT_FALSE(reference.empty());
    for (std::uint32_t const ranks : {2u, 3u, 4u}) {
        auto const values = cpu_logits(model::Sharding::tensor, ranks);
        ASSERT_EQ(values.size(), reference.size()) << ranks << " ranks";
        EXPECT_LE(nmse(values, reference), 1e-4) << ranks << " ranks";
    }
}

// 9 heads and 3 KV heads over shares of 5 to 1: one rank gets no heads in some layers.
TEST_F(EngineTest, uneven_shares_with_empty_slices_change_nothing) {
    auto const reference = cpu_logits(model::Sharding::pipeline, 1);
    auto const values = cpu_logits(model::Sharding::tensor, 2, {5, 1});
    ASSERT_EQ(values.size(), reference.size());
    EXPECT_LE(nmse(values, reference), 1e-4);
}

Bytes bytes_of(std::string const& text) {
    Bytes bytes;
    append(bytes, as_bytes(text));
    return bytes;
}

// What rank 0 hears when a disk of rank 1 breaks while it loads.
Bytes reason_at_rank_0(collective::Group& group) {
    LoadOptions options{
        .model_paths = {test_model()},
        .ranks = group.size(),
        .context_length = 256,
        .micro_batch = 64,
        .step_tokens_max = 128,
        .parallel = 4
    };
    if (group.rank() == 1) {
        options.read_at = [](int, void*, std::size_t, off_t) {
            errno = EIO;
            return ssize_t{-1};
        };
    }
    auto outline = outline_model(options, &group);
    if (!outline) {
        return bytes_of(outline.error().text());
    }
    auto const loaded = finish_model(std::move(*outline), group, [](std::uint32_t) {});
    if (!loaded) {
        return bytes_of(loaded.error().text());
    }
    auto const ready = group.barrier(); // As warming up would.
    return bytes_of(ready ? "ready" : ready.error().text());
}

TEST_F(EngineTest, when_one_rank_cannot_read_all_end_with_its_reason) {
    auto const bytes = run_ranks(2, reason_at_rank_0);
    auto const text = std::string(as_text(bytes));
    for (std::string const& part : {std::string("rank 1"), std::string("tensor "), test_model()}) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    EXPECT_NE(text.find("Input/output error"), std::string::npos) << text;
}

} // namespace
} // namespace exo::engine
