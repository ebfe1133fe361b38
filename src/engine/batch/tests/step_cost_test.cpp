// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "engine/batch/step_cost.hpp"

#include <gtest/gtest.h>

namespace exo::engine {
namespace {

constexpr Duration wait = 200ms;

// A machine on which a step takes a base time, and more for each token of a prompt.
struct Machine {
    Duration base;
    Duration per_token;
    Random random{7};

    Duration time(std::uint32_t prompt_tokens) {
        auto const exact = base + per_token * prompt_tokens;
        return exact * (95 + random.below(11)) / 100; // It is a little noisy.
    }
};

TEST(StepCost, nothing_is_known_at_first_and_few_tokens_are_tried) {
    EXPECT_EQ(StepCost().prompt_tokens_within(wait), 16u);
}

TEST(StepCost, a_prompt_next_to_answers_soon_adds_what_it_may_and_not_much_more) {
    for (auto const per_token : {100us, 2000us, 18000us}) {
        Machine machine{.base = 60ms, .per_token = per_token};
        StepCost cost;
        for (int i = 0; i < 5; ++i) {
            cost.note(0, machine.time(0));
        }
        std::uint32_t tokens = 0;
        for (int i = 0; i < 20; ++i) {
            tokens = cost.prompt_tokens_within(wait);
            if (i > 0) { // What is tried before anything is known may be too much.
                EXPECT_LE(per_token * tokens, wait) << i;
            }
            cost.note(tokens, machine.time(tokens));
        }
        EXPECT_GE(per_token * tokens, wait * 6 / 10);
    }
}

TEST(StepCost, a_machine_that_becomes_slow_is_believed_within_three_steps) {
    Machine machine{.base = 20ms, .per_token = 1ms};
    StepCost cost;
    for (int i = 0; i < 20; ++i) {
        auto const tokens = cost.prompt_tokens_within(wait);
        cost.note(tokens, machine.time(tokens));
    }
    machine.per_token = 4ms;
    for (int i = 0; i < 3; ++i) {
        auto const tokens = cost.prompt_tokens_within(wait);
        cost.note(tokens, machine.time(tokens));
    }
    EXPECT_LE(machine.per_token * cost.prompt_tokens_within(wait), wait);
}

TEST(StepCost, the_few_tokens_at_the_end_of_a_prompt_change_little) {
    Machine machine{.base = 60ms, .per_token = 1ms};
    StepCost cost;
    cost.note(0, 60ms);
    cost.note(200, machine.time(200));
    auto const before = cost.prompt_tokens_within(wait);
    cost.note(1, 70ms);
    EXPECT_GE(cost.prompt_tokens_within(wait), before * 9 / 10);
}

TEST(StepCost, more_than_twice_what_was_tried_is_never_risked) {
    StepCost cost;
    cost.note(16, 1ms);
    EXPECT_EQ(cost.prompt_tokens_within(wait), 32u);
}

TEST(StepCost, one_token_always_goes_in) {
    StepCost cost;
    cost.note(1, 10s);
    EXPECT_EQ(cost.prompt_tokens_within(wait), 1u);
}

} // namespace
} // namespace exo::engine
