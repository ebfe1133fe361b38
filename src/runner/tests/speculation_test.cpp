// SPDX-License-Identifier: Apache-2.0
//
// Speculative decoding on real runners: answers are what they are without it, token for token. The
// demo model drafts for itself, so nearly all of its guesses must be right. Needs the test model.
#include "runner/tests/real_ranks.hpp"

namespace exo::runner {
namespace {

using SpeculationTest = RunnerTest;

struct Cut {
    model::Sharding sharding;
    std::uint32_t ranks;
};

constexpr std::array cuts{
    Cut{model::Sharding::pipeline, 1},
    Cut{model::Sharding::pipeline, 2},
    Cut{model::Sharding::tensor, 2},
};

ipc::Start plain(Cut const& cut) {
    return start_for(cut.sharding, cut.ranks);
}

ipc::Start with_draft_model(Cut const& cut) {
    auto start = plain(cut);
    start.settings.draft_model = model::ModelId("demo");
    start.draft_paths = {test_model()};
    return start;
}

ipc::Start with_lookup(Cut const& cut) {
    auto start = plain(cut);
    start.settings.prompt_lookup = true;
    return start;
}

model::GenerationRequest long_story() {
    auto wanted = story();
    wanted.max_tokens = 80;
    return wanted;
}

model::GenerationRequest echo() {
    auto wanted = request(
        "echo",
        "Repeat this list: red apple, green pear, yellow lemon, blue plum, black "
        "cherry."
    );
    wanted.max_tokens = 80;
    return wanted;
}

Answer answer_of(ipc::Start const& start, model::GenerationRequest const& wanted) {
    auto ranks = ready(start);
    auto answer = ask(*ranks, wanted);
    shut_down(*ranks);
    return answer;
}

model::GenerationStats stats_of(Answer const& answer) {
    return answer.finished.value_or(model::GenerationFinished{}).stats;
}

TEST_F(SpeculationTest, a_model_that_drafts_for_itself_is_right_and_changes_nothing) {
    for (auto const& cut : cuts) {
        auto const expected = answer_of(plain(cut), long_story());
        EXPECT_FALSE(stats_of(expected).drafted_tokens) << "nobody asked for drafts";
        auto const answer = answer_of(with_draft_model(cut), long_story());
        EXPECT_EQ(answer.text, expected.text);
        EXPECT_EQ(answer.finished->usage, expected.finished->usage);
        auto const drafted = stats_of(answer).drafted_tokens.value_or(0);
        EXPECT_GT(drafted, 20u);
        EXPECT_GE(stats_of(answer).accepted_tokens.value_or(0) * 10, drafted * 9);
    }
}

TEST_F(SpeculationTest, prompt_lookup_is_right_where_text_repeats_and_changes_nothing) {
    for (auto const& cut : cuts) {
        auto plain_ranks = ready(plain(cut));
        auto ranks = ready(with_lookup(cut));
        for (auto const& wanted : {echo(), long_story()}) {
            auto const answer = ask(*ranks, wanted);
            EXPECT_EQ(answer.text, ask(*plain_ranks, wanted).text);
            if (wanted.task_id == echo().task_id) {
                EXPECT_GT(stats_of(answer).accepted_tokens.value_or(0), 9u) << answer.text;
            }
        }
        shut_down(*plain_ranks);
        shut_down(*ranks);
    }
}

// Penalties look at all that was said: a rejected draft must not be among it.
TEST_F(SpeculationTest, penalties_and_stops_see_the_same_text) {
    auto wanted = long_story();
    wanted.sampling.repetition_penalty = 1.3;
    wanted.sampling.presence_penalty = 0.5;
    wanted.sampling.frequency_penalty = 0.2;
    auto stopped = long_story();
    stopped.task_id = model::TaskId("stopped");
    stopped.stop = {" river"};
    auto both = with_draft_model(cuts[0]);
    both.settings.prompt_lookup = true;
    auto plain_ranks = ready(plain(cuts[0]));
    auto ranks = ready(both);
    for (auto const& each : {wanted, stopped}) {
        auto const expected = ask(*plain_ranks, each);
        auto const answer = ask(*ranks, each);
        EXPECT_EQ(answer.text, expected.text);
        EXPECT_EQ(
            answer.finished->usage.completion_tokens, expected.finished->usage.completion_tokens
        );
        EXPECT_EQ(answer.finished->finish_reason, expected.finished->finish_reason);
    }
    shut_down(*plain_ranks);
    shut_down(*ranks);
}

TEST_F(SpeculationTest, a_seed_gives_the_same_answer_again_and_without_drafts) {
    auto wanted = long_story();
    wanted.sampling.temperature = 0.8;
    wanted.sampling.seed = 7;
    auto const first = answer_of(with_draft_model(cuts[1]), wanted);
    EXPECT_EQ(answer_of(with_draft_model(cuts[1]), wanted).text, first.text);
    EXPECT_EQ(answer_of(plain(cuts[1]), wanted).text, first.text);
    EXPECT_GT(stats_of(first).accepted_tokens.value_or(0), 0u);
}

// More sequences than draft at a time, some of which outgrow the cache and pause.
TEST_F(SpeculationTest, a_busy_batch_answers_all_of_them_whole) {
    auto start = with_draft_model(cuts[1]);
    start.settings.prompt_lookup = true;
    auto ranks = ready(start);
    for (int i = 0; i < 6; ++i) {
        auto wanted = story("story " + std::to_string(i));
        wanted.max_tokens = 30 + static_cast<std::uint32_t>(i) * 15;
        EXPECT_TRUE(ranks->send(0, ipc::Generate{wanted}).has_value());
    }
    Listener listener(*ranks);
    for (int i = 0; i < 6; ++i) {
        auto const& answer = listener.until_ended("story " + std::to_string(i));
        ASSERT_TRUE(answer.finished.has_value());
        EXPECT_EQ(answer.finished->usage.completion_tokens, 30u + static_cast<unsigned>(i) * 15);
    }
    shut_down(*ranks);
}

TEST_F(SpeculationTest, an_answer_ends_where_the_context_does) {
    auto start = with_lookup(cuts[0]);
    start.context_length = 256;
    auto const answer =
        answer_of(start, request("count", "Count from 1 to 1000: 1, 2, 3, 4, 5, 6, 7"));
    ASSERT_TRUE(answer.finished.has_value());
    auto const& usage = answer.finished->usage;
    EXPECT_LE(usage.prompt_tokens + usage.completion_tokens, 257u);
}

} // namespace
} // namespace exo::runner
