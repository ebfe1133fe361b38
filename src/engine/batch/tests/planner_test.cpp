// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "engine/batch/planner.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace exo::engine {
namespace {

PlannerLimits const limits{.step_tokens_max = 64, .micro_batch = 16, .cells = 1000};

std::vector<Chunk> chunks(std::vector<SequenceView> const& sequences) {
    auto const choice = choose(sequences, limits);
    EXPECT_TRUE(choice.evicted.empty());
    return choice.chunks;
}

TEST(Planner, a_short_prompt_goes_in_whole) {
    EXPECT_EQ(chunks({{0, 10}}), (std::vector<Chunk>{{0, 10}}));
}

TEST(Planner, a_long_prompt_goes_in_steps) {
    EXPECT_EQ(chunks({{0, 200}}), (std::vector<Chunk>{{0, 64}}));
    EXPECT_EQ(chunks({{64, 200}}), (std::vector<Chunk>{{0, 64}}));
}

TEST(Planner, generation_goes_on_beside_a_long_prompt) {
    EXPECT_EQ(chunks({{0, 200}, {50, 51}}), (std::vector<Chunk>{{1, 1}, {0, 63}}));
}

TEST(Planner, prompts_share_the_step_oldest_first) {
    EXPECT_EQ(chunks({{0, 40}, {0, 40}}), (std::vector<Chunk>{{0, 40}, {1, 24}}));
}

TEST(Planner, outputs_are_made_to_fit_into_the_last_micro_batch) {
    // 17 tokens would leave one in the last micro-batch of 16, for two outputs.
    EXPECT_EQ(chunks({{5, 6}, {0, 16}}), (std::vector<Chunk>{{0, 1}, {1, 15}}));
}

TEST(Planner, when_the_cells_run_out_the_youngest_is_evicted) {
    auto const choice =
        choose(std::vector<SequenceView>{{500, 501}, {300, 301}, {200, 201}}, limits);
    EXPECT_EQ(choice.evicted, (std::vector<std::size_t>{2}));
    EXPECT_EQ(choice.chunks, (std::vector<Chunk>{{0, 1}, {1, 1}}));
}

TEST(Planner, the_last_cell_is_used) {
    auto const choice = choose(std::vector<SequenceView>{{999, 1000}}, limits);
    EXPECT_TRUE(choice.evicted.empty());
    EXPECT_EQ(choice.chunks, (std::vector<Chunk>{{0, 1}}));
}

// Whatever the mixture: the step holds no more than allowed, outputs are in the last micro-batch,
// and cells are not exceeded.
TEST(Planner, any_choice_keeps_all_limits) {
    Random random(1);
    for (int round = 0; round < 5000; ++round) {
        std::vector<SequenceView> sequences;
        for (std::uint64_t i = 0, n = 1 + random.below(8); i < n; ++i) {
            auto const cached = static_cast<std::uint32_t>(random.below(120));
            auto const more = random.chance(1, 2) ? 1 : 1 + random.below(100);
            sequences.push_back({cached, cached + static_cast<std::uint32_t>(more)});
        }
        auto const choice = choose(sequences, limits);
        ASSERT_FALSE(choice.chunks.empty());
        std::uint32_t tokens = 0;
        std::uint32_t outputs = 0;
        auto cells = std::accumulate(
            sequences.begin(),
            sequences.end() - static_cast<std::ptrdiff_t>(choice.evicted.size()),
            0u,
            [](std::uint32_t sum, SequenceView const& s) { return sum + s.cached; }
        );
        for (auto const& chunk : choice.chunks) {
            ASSERT_GT(chunk.count, 0u);
            ASSERT_LT(chunk.index, sequences.size() - choice.evicted.size());
            ASSERT_LE(chunk.count, sequences[chunk.index].pending());
            tokens += chunk.count;
            outputs += chunk.count == sequences[chunk.index].pending() ? 1 : 0;
        }
        ASSERT_LE(tokens, limits.step_tokens_max);
        ASSERT_LE(outputs, (tokens - 1) % limits.micro_batch + 1);
        ASSERT_LE(cells + tokens, limits.cells);
    }
}

} // namespace
} // namespace exo::engine
