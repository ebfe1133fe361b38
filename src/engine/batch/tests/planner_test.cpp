// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "engine/batch/planner.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace exo::engine {
namespace {

PlannerLimits const limits{
    .step_tokens_max = 64, .prompt_tokens_max = 40, .micro_batch = 16, .cells = 1000
};

std::vector<Chunk>
chunks(std::vector<SequenceView> const& sequences, PlannerLimits const& own = limits) {
    return choose(sequences, own);
}

TEST(Planner, a_short_prompt_goes_in_whole) {
    EXPECT_EQ(chunks({{0, 10}}), (std::vector<Chunk>{{0, 10}}));
}

TEST(Planner, a_long_prompt_goes_in_full_steps_while_nobody_generates) {
    EXPECT_EQ(chunks({{0, 200}}), (std::vector<Chunk>{{0, 64}}));
    EXPECT_EQ(chunks({{64, 200}}), (std::vector<Chunk>{{0, 64}}));
}

TEST(Planner, beside_one_that_generates_a_prompt_gets_what_was_allowed) {
    EXPECT_EQ(chunks({{0, 200}, {50, 51}}), (std::vector<Chunk>{{1, 1}, {0, 40}}));
}

TEST(Planner, the_oldest_prompt_gets_half_and_the_shortest_the_rest) {
    EXPECT_EQ(
        chunks({{0, 200}, {0, 100}, {0, 20}, {0, 9}}),
        (std::vector<Chunk>{{0, 32}, {1, 3}, {2, 20}, {3, 9}})
    );
    EXPECT_EQ(chunks({{0, 200}, {0, 8}}), (std::vector<Chunk>{{0, 56}, {1, 8}}));
}

TEST(Planner, one_that_waits_gets_nothing) {
    EXPECT_EQ(
        chunks({{0, 10}, {.cached = 0, .total = 10, .waits = true}}), (std::vector<Chunk>{{0, 10}})
    );
}

TEST(Planner, outputs_are_made_to_fit_into_the_last_micro_batch) {
    // 17 tokens would leave one in the last micro-batch of 16, for two outputs.
    EXPECT_EQ(chunks({{5, 6}, {0, 16}}), (std::vector<Chunk>{{0, 1}, {1, 15}}));
    // Here even one token of the prompt would be too many.
    EXPECT_EQ(
        chunks({{.cached = 5, .total = 21, .outputs = 16}, {0, 9}}), (std::vector<Chunk>{{0, 16}})
    );
}

TEST(Planner, all_drafts_of_a_sequence_go_in) {
    EXPECT_EQ(
        chunks({{.cached = 5, .total = 9, .outputs = 4}, {5, 6}}),
        (std::vector<Chunk>{{0, 4}, {1, 1}})
    );
}

TEST(Planner, prompts_take_no_more_cells_than_are_free) {
    auto few = limits;
    few.cells = 7;
    EXPECT_EQ(chunks({{5, 6}, {0, 100}}, few), (std::vector<Chunk>{{0, 1}, {1, 6}}));
    few.cells = 1;
    EXPECT_EQ(chunks({{999, 1000}}, few), (std::vector<Chunk>{{0, 1}}));
}

// Whatever the mixture: the step holds no more than allowed, outputs are in the last micro-batch,
// who generates gets all, and the oldest prompt gets something unless they leave no room.
TEST(Planner, any_choice_keeps_all_limits) {
    Random random(1);
    for (int round = 0; round < 5000; ++round) {
        std::vector<SequenceView> sequences;
        std::uint32_t generating = 0;
        for (std::uint64_t i = 0, n = 1 + random.below(8); i < n; ++i) {
            auto const cached = static_cast<std::uint32_t>(random.below(120));
            auto const outputs = 1 + static_cast<std::uint32_t>(random.below(2));
            auto const more = random.chance(1, 2) ? 0 : 1 + random.below(100);
            sequences.push_back(
                {cached, cached + outputs + static_cast<std::uint32_t>(more), outputs}
            );
            generating += more == 0 ? outputs : 0;
        }
        auto own = limits;
        own.prompt_tokens_max = 1 + static_cast<std::uint32_t>(random.below(64));
        own.cells = generating + 1 + static_cast<std::uint32_t>(random.below(100));
        auto const chosen = chunks(sequences, own);
        ASSERT_FALSE(chosen.empty());
        std::uint32_t tokens = 0;
        std::uint32_t outputs = 0;
        for (auto const& chunk : chosen) {
            auto const& sequence = sequences[chunk.index];
            ASSERT_GT(chunk.count, 0u);
            ASSERT_LE(chunk.count, sequence.pending());
            tokens += chunk.count;
            outputs += chunk.count == sequence.pending() ? sequence.outputs : 0;
        }
        ASSERT_LE(tokens, std::min(own.step_tokens_max, own.cells));
        ASSERT_LE(outputs, (tokens - 1) % own.micro_batch + 1);
        ASSERT_GE(outputs, generating);
        if (generating > 0) {
            ASSERT_LE(tokens, generating + own.prompt_tokens_max);
        }
    }
}

} // namespace
} // namespace exo::engine
