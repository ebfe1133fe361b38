// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler/sampler.hpp"

#include <gtest/gtest.h>

#include <set>

namespace exo::engine {
namespace {

constexpr std::int32_t vocabulary_size = 8;
std::vector<float> const logits = {0.0F, 1.0F, 5.0F, 4.5F, 0.5F, -1.0F, 2.0F, 3.0F};

Sampler make(model::Sampling const& sampling, std::vector<std::int32_t> const& prompt = {}) {
    auto made = Sampler::make(sampling, vocabulary_size, prompt, /*seed_drawn=*/1);
    EXPECT_TRUE(made.has_value());
    return std::move(*made);
}

std::vector<std::int32_t> draw(Sampler sampler, int count) {
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < count; ++i) {
        tokens.push_back(sampler.sample(logits));
    }
    return tokens;
}

TEST(Sampler, temperature_0_takes_the_greatest) {
    EXPECT_EQ(draw(make({.temperature = 0.0}), 3), (std::vector<std::int32_t>{2, 2, 2}));
}

TEST(Sampler, the_same_seed_draws_the_same_tokens) {
    model::Sampling const sampling{.temperature = 2.0, .min_p = 0.0, .seed = 7u};
    EXPECT_EQ(draw(make(sampling), 50), draw(make(sampling), 50));
}

TEST(Sampler, another_seed_draws_other_tokens) {
    model::Sampling one{.temperature = 2.0, .min_p = 0.0, .seed = 7u};
    auto other = one;
    other.seed = 8u;
    EXPECT_NE(draw(make(one), 50), draw(make(other), 50));
}

TEST(Sampler, top_k_leaves_the_k_greatest) {
    auto const tokens = draw(make({.temperature = 5.0, .top_k = 2, .min_p = 0.0}), 200);
    EXPECT_EQ(std::set(tokens.begin(), tokens.end()), (std::set<std::int32_t>{2, 3}));
}

TEST(Sampler, a_small_top_p_leaves_the_greatest) {
    auto const tokens = draw(make({.temperature = 1.0, .top_p = 0.01}), 50);
    EXPECT_EQ(std::set(tokens.begin(), tokens.end()), (std::set<std::int32_t>{2}));
}

TEST(Sampler, min_p_drops_what_is_too_unlikely) {
    auto const tokens = draw(make({.temperature = 5.0, .min_p = 0.5}), 200);
    EXPECT_EQ(std::set(tokens.begin(), tokens.end()), (std::set<std::int32_t>{2, 3}));
}

TEST(Sampler, a_frequency_penalty_makes_a_repeated_token_lose) {
    auto const tokens = draw(make({.temperature = 0.0, .frequency_penalty = 0.4}), 3);
    EXPECT_EQ(tokens, (std::vector<std::int32_t>{2, 2, 3}));
}

TEST(Sampler, a_repetition_penalty_looks_at_the_prompt_too) {
    EXPECT_EQ(draw(make({.temperature = 0.0, .repetition_penalty = 2.0}, {2}), 1).front(), 3);
}

TEST(Sampler, values_out_of_range_are_refused_by_name) {
    for (auto const& [name, sampling] : std::vector<std::pair<std::string, model::Sampling>>{
             {"temperature", {.temperature = -1.0}},
             {"top_p", {.top_p = 1.5}},
             {"min_p", {.min_p = -0.1}},
             {"repetition_penalty", {.repetition_penalty = 0.0}},
         }) {
        auto const made = Sampler::make(sampling, vocabulary_size, {}, 1);
        ASSERT_FALSE(made.has_value()) << name;
        EXPECT_EQ(made.error().code(), Errc::invalid_argument);
        EXPECT_NE(made.error().text().find(name), std::string::npos);
    }
}

} // namespace
} // namespace exo::engine
