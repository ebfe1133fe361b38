// SPDX-License-Identifier: Apache-2.0
//
// Requests that share a batch and a cache, on real runners and a real model. Needs the test model.
#include "runner/tests/real_ranks.hpp"

namespace exo::runner {
namespace {

using SharingTest = RunnerTest;

TEST_F(SharingTest, requests_share_the_batch_and_more_than_fit_wait) {
    auto start = start_for(model::Sharding::pipeline, 2);
    start.settings.parallel = 8;
    auto ranks = ready(start);
    for (int i = 0; i < 12; ++i) {
        auto wanted = capital("task " + std::to_string(i));
        EXPECT_TRUE(ranks->send(0, ipc::Generate{wanted}).has_value());
    }
    Listener listener(*ranks);
    for (int i = 0; i < 12; ++i) {
        auto const& answer = listener.until_ended("task " + std::to_string(i));
        EXPECT_NE(answer.text.find("Paris"), std::string::npos) << i << answer.text;
    }
    shut_down(*ranks);
}

// Four answers of 60 tokens do not fit into 256 cells at once: some pause, and go on.
TEST_F(SharingTest, answers_that_outgrow_the_cache_lose_nothing) {
    auto start = start_for(model::Sharding::pipeline, 1);
    start.context_length = 256;
    auto ranks = ready(start);
    for (int i = 0; i < 4; ++i) {
        auto wanted = story("task " + std::to_string(i));
        wanted.max_tokens = 60;
        EXPECT_TRUE(ranks->send(0, ipc::Generate{wanted}).has_value());
    }
    Listener listener(*ranks);
    for (int i = 0; i < 4; ++i) {
        auto const& answer = listener.until_ended("task " + std::to_string(i));
        ASSERT_TRUE(answer.finished.has_value());
        EXPECT_EQ(answer.finished->usage.completion_tokens, 60u);
    }
    shut_down(*ranks);
}

TEST_F(SharingTest, neighbours_in_the_batch_do_not_change_an_answer) {
    auto ranks = ready(start_for(model::Sharding::tensor, 2));
    for (int i = 0; i < 3; ++i) {
        auto wanted = story("story " + std::to_string(i));
        wanted.max_tokens = 40;
        EXPECT_TRUE(ranks->send(0, ipc::Generate{wanted}).has_value());
    }
    EXPECT_TRUE(ranks->send(0, ipc::Generate{capital()}).has_value());
    Listener listener(*ranks);
    EXPECT_EQ(listener.until_ended("capital").text, "The capital of France is Paris.");
    for (int i = 0; i < 3; ++i) {
        auto const& answer = listener.until_ended("story " + std::to_string(i));
        EXPECT_EQ(answer.finished.value().usage.completion_tokens, 40u);
    }
    shut_down(*ranks);
}

// Simulated ranks do a thousand pairs (engine/batch/tests); these are real.
TEST_F(SharingTest, requests_that_come_at_the_same_time_are_all_answered) {
    for (auto const sharding : {model::Sharding::pipeline, model::Sharding::tensor}) {
        auto start = start_for(sharding, 2);
        start.context_length = 256; // Small, so that they also push each other out.
        auto ranks = ready(start);
        Listener listener(*ranks);
        for (int pair = 0; pair < 6; ++pair) {
            std::vector<std::string> ids;
            for (int i = 0; i < 2; ++i) {
                ids.push_back(std::to_string(pair) + (i == 0 ? " left" : " right"));
                auto wanted = story(ids.back());
                wanted.messages[0].content += std::string(std::size_t(pair * 7 * i), '!');
                wanted.max_tokens = 3 + 4 * pair + i;
                EXPECT_TRUE(ranks->send(0, ipc::Generate{wanted}).has_value());
            }
            for (int i = 0; i < 2; ++i) {
                auto const& answer = listener.until_ended(ids[std::size_t(i)]);
                ASSERT_TRUE(answer.finished.has_value());
                auto const count = std::uint32_t(3 + 4 * pair + i);
                EXPECT_EQ(answer.finished->usage.completion_tokens, count);
            }
        }
        shut_down(*ranks);
    }
}

std::string many_words(int count) {
    std::string words;
    for (int i = 0; i < count; ++i) {
        words += " word" + std::to_string(i % 10);
    }
    return words;
}

TEST_F(SharingTest, an_answer_goes_on_while_a_long_prompt_is_read) {
    auto start = start_for(model::Sharding::pipeline, 2);
    start.context_length = 1024;
    start.settings.prompt_wait_ms = 1; // So that it takes many steps.
    auto ranks = ready(start);
    auto wanted = story();
    wanted.max_tokens = 300;
    EXPECT_TRUE(ranks->send(0, ipc::Generate{wanted}).has_value());
    Listener listener(*ranks);
    while (listener.answers["story"].deltas < 3 && listener.next()) {
    }
    EXPECT_TRUE(ranks->send(0, ipc::Generate{request("long", many_words(40))}).has_value());
    while (listener.answers["long"].deltas == 0 && listener.next()) {
    }
    auto const& progress = listener.answers["long"].progress;
    ASSERT_GE(progress.size(), 4u);
    for (std::size_t i = 1; i < progress.size(); ++i) {
        EXPECT_LE(progress[i].processed - progress[i - 1].processed, 32u);
        EXPECT_GT(progress[i].deltas_of_all, progress[i - 1].deltas_of_all);
    }
    for (char const* id : {"story", "long"}) {
        EXPECT_TRUE(ranks->send(0, ipc::Cancel{model::TaskId(id)}).has_value());
    }
    shut_down(*ranks);
}

TEST_F(SharingTest, a_prompt_is_cancelled_between_its_steps) {
    auto start = start_for(model::Sharding::pipeline, 2);
    start.context_length = 4096;
    auto ranks = ready(start);
    EXPECT_TRUE(ranks->send(0, ipc::Generate{request("long", many_words(1500))}).has_value());
    Listener listener(*ranks);
    auto& cancelled = listener.answers["long"];
    while (cancelled.progress.empty() && listener.next()) {
    }
    EXPECT_TRUE(ranks->send(0, ipc::Cancel{model::TaskId("long")}).has_value());
    EXPECT_TRUE(ranks->send(0, ipc::Generate{capital()}).has_value());
    EXPECT_EQ(listener.until_ended("capital").text, "The capital of France is Paris.");
    // The step that was running when the word came, and no other.
    EXPECT_LE(cancelled.progress.size(), 2u);
    EXPECT_LT(cancelled.progress.back().processed, cancelled.progress.back().total);
    EXPECT_FALSE(cancelled.ended);
    shut_down(*ranks);
}

TEST_F(SharingTest, what_was_asked_before_is_not_computed_again) {
    for (auto const sharding : {model::Sharding::pipeline, model::Sharding::tensor}) {
        auto ranks = ready(start_for(sharding, 2));
        auto const first = ask(*ranks, capital("first"));
        EXPECT_EQ(first.finished.value().usage.cached_tokens, 0u);

        auto const same = ask(*ranks, capital("same"));
        EXPECT_EQ(same.text, first.text);
        auto const& usage = same.finished.value().usage;
        EXPECT_EQ(usage.cached_tokens + 1, usage.prompt_tokens); // One for its logits.

        auto next = capital("next"); // The conversation goes on.
        next.messages.push_back({.role = "assistant", .content = first.text});
        next.messages.push_back({.role = "user", .content = "And of Italy?"});
        auto const answer = ask(*ranks, next);
        EXPECT_NE(answer.text.find("Rome"), std::string::npos) << answer.text;
        EXPECT_GE(
            answer.finished.value().usage.cached_tokens,
            usage.prompt_tokens + first.finished->usage.completion_tokens - 1
        );
        shut_down(*ranks);
    }
}

TEST_F(SharingTest, a_cache_of_q8_0_gives_the_right_text_too) {
    for (std::uint32_t const size : {1u, 2u}) {
        auto start = start_for(model::Sharding::tensor, size);
        start.settings.cache_type = model::CacheType::q8_0;
        auto ranks = ready(start);
        EXPECT_EQ(ask(*ranks, capital()).text, "The capital of France is Paris.") << size;
        EXPECT_EQ(ask(*ranks, capital("again")).text, "The capital of France is Paris.") << size;
        shut_down(*ranks);
    }
}

TEST_F(SharingTest, a_cancelled_request_says_no_more_and_frees_its_place) {
    auto start = start_for(model::Sharding::pipeline, 2);
    start.settings.parallel = 8;
    auto ranks = ready(start);
    for (int i = 0; i < 8; ++i) { // All places.
        EXPECT_TRUE(ranks->send(0, ipc::Generate{story("task " + std::to_string(i))}).has_value());
    }
    Listener listener(*ranks);
    while (listener.answers["task 0"].deltas == 0 && listener.next()) {
    }
    for (int i = 0; i < 8; ++i) {
        auto const id = model::TaskId("task " + std::to_string(i));
        EXPECT_TRUE(ranks->send(0, ipc::Cancel{id}).has_value());
    }
    EXPECT_TRUE(ranks->send(0, ipc::Generate{capital()}).has_value());
    EXPECT_EQ(listener.until_ended("capital").text, "The capital of France is Paris.");
    for (int i = 0; i < 8; ++i) {
        EXPECT_FALSE(listener.answers["task " + std::to_string(i)].ended);
    }
    shut_down(*ranks);
}

} // namespace
} // namespace exo::runner
