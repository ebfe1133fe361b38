// SPDX-License-Identifier: Apache-2.0
#include "storage/models/find_card.hpp"

#include <gtest/gtest.h>

namespace exo::storage {
namespace {

model::ModelCard card(std::string id, std::string quantization = "") {
    model::ModelCard card;
    card.model_id = model::ModelId(std::move(id));
    card.quantization = std::move(quantization);
    return card;
}

std::vector<model::ModelCard> const shelf{
    card("smollm2-135m-instruct", "Q4_1"),
    card("Qwen/Qwen3-8B:Q4_K_M", "Q4_K_M"),
    card("Qwen/Qwen3-8B:Q8_0", "Q8_0"),
    card("unsloth/gemma-3-4b-it", "Q4_K_M"),
    card("google/gemma-3-4b-it", "F16"),
};

std::string found(std::string const& id) {
    auto const result = find_card(shelf, id);
    return result ? result->model_id.value() : "error: " + result.error().text();
}

TEST(FindCard, a_whole_id_is_found_in_any_case) {
    EXPECT_EQ(found("smollm2-135m-instruct"), "smollm2-135m-instruct");
    EXPECT_EQ(found("SmolLM2-135M-Instruct"), "smollm2-135m-instruct");
    EXPECT_EQ(found("qwen/qwen3-8b:q8_0"), "Qwen/Qwen3-8B:Q8_0");
}

TEST(FindCard, an_id_with_its_quantization_is_the_same_model) {
    EXPECT_EQ(found("unsloth/gemma-3-4b-it:Q4_K_M"), "unsloth/gemma-3-4b-it");
    EXPECT_EQ(found("smollm2-135m-instruct:q4_1"), "smollm2-135m-instruct");
}

TEST(FindCard, a_short_name_is_enough_when_it_is_unique) {
    EXPECT_EQ(found("qwen3-8b:Q8_0"), "Qwen/Qwen3-8B:Q8_0");
    EXPECT_EQ(found("gemma-3-4b-it:F16"), "google/gemma-3-4b-it");
}

TEST(FindCard, an_ambiguous_name_lists_the_candidates) {
    EXPECT_EQ(
        found("gemma-3-4b-it"),
        "error: 'gemma-3-4b-it' fits several models, name one: google/gemma-3-4b-it, "
        "unsloth/gemma-3-4b-it"
    );
    EXPECT_EQ(
        found("Qwen/Qwen3-8B"),
        "error: 'Qwen/Qwen3-8B' fits several models, name one: Qwen/Qwen3-8B:Q4_K_M, "
        "Qwen/Qwen3-8B:Q8_0"
    );
    EXPECT_EQ(find_card(shelf, "Qwen3-8B").error().code(), Errc::not_found);
}

TEST(FindCard, ids_that_differ_only_in_case_are_found_exactly) {
    std::vector const twins{card("a/Model"), card("a/model")};
    EXPECT_EQ(find_card(twins, "a/model")->model_id.value(), "a/model");
    EXPECT_EQ(find_card(twins, "a/Model")->model_id.value(), "a/Model");
    EXPECT_FALSE(find_card(twins, "A/MODEL"));
}

TEST(FindCard, an_unknown_name_gets_what_comes_near) {
    EXPECT_EQ(
        found("smolm2-135m-instruct"),
        "error: no model 'smolm2-135m-instruct': did you mean smollm2-135m-instruct?"
    );
    EXPECT_EQ(
        found("gemma"),
        "error: no model 'gemma': did you mean google/gemma-3-4b-it, unsloth/gemma-3-4b-it?"
    );
    EXPECT_NE(found("gpt-4o").find("there are Qwen/Qwen3-8B:Q4_K_M, "), std::string::npos);
    EXPECT_NE(found("").find("no model ''"), std::string::npos);
    EXPECT_EQ(
        find_card({}, "x").error().text(),
        "no model 'x': no model is on any disk of the cluster yet"
    );
}

TEST(FindCard, a_name_of_absurd_length_costs_nothing_and_is_not_echoed) {
    EXPECT_LT(found(std::string(10'000'000, 'x')).size(), 500u);
}

} // namespace
} // namespace exo::storage
