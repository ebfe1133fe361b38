// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "engine/batch/batch.hpp"
#include "engine/batch/step_cost.hpp"
#include "engine/batch/tests/fake_cache.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

namespace exo::engine {
namespace {

using Tokens = std::vector<std::int32_t>;

PlanLimits const limits{
    .tokens_max = 64,
    .micro_batch = 16,
    .sequences_max = 8,
    .vocabulary_size = 1000,
    .context_length = 256,
};

// The "model": the next token depends on every token before it.
std::int32_t next_token(Tokens const& text) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (auto const token : text) {
        hash = (hash ^ std::uint64_t(token)) * 0x100000001b3;
    }
    return std::int32_t((hash >> 20) % 1000);
}

// What the model says to a prompt if it is asked nothing else.
Tokens answer_alone(Tokens text, std::size_t length) {
    Tokens answer;
    while (answer.size() < length) {
        answer.push_back(next_token(text));
        text.push_back(answer.back());
    }
    return answer;
}

Tokens prompt_of(std::size_t length, std::int32_t first = 0) {
    Tokens tokens(length);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
}

// All ranks in one process: rank 0's batch, and a cache for each rank that obeys the plans as they
// come over the wire.
class Ranks {
public:
    explicit Ranks(
        std::size_t count, PlanLimits own = limits, std::uint32_t parallel = 8, CacheKind kind = {}
    )
        : limits_(own)
        , batch(own, parallel)
        , caches_(count, FakeCache(own.context_length)) {
        batch.set_kind(kind);
    }

    SequenceId ask(Tokens const& prompt, std::size_t answer_length) {
        auto const id = batch.add(prompt);
        wanted_[id] = {prompt, answer_length, {}};
        return id;
    }

    void cancel(SequenceId id) {
        batch.remove(id);
        wanted_.erase(id);
    }

    // `guess`: what a draft model proposes after a text.
    void step(std::function<Tokens(Tokens const&)> const& guess = {}) {
        last = batch.next(prompt_tokens_max, [](std::uint32_t) { return 0; });
        last.plan.number = number_;
        auto const bytes = encode(last.plan);
        for (auto& cache : caches_) {
            auto const plan = decode_step_plan(bytes);
            ASSERT_TRUE(plan.has_value());
            auto const valid = validate(*plan, limits_, number_);
            ASSERT_TRUE(valid.has_value()) << valid.error().text();
            cache.apply(*plan);
        }
        ++number_;
        for (auto const& output : last.outputs) {
            answer(output, guess);
        }
    }

    void run(std::size_t steps_max = 100'000) {
        for (std::size_t i = 0; !batch.idle(); ++i) {
            ASSERT_LT(i, steps_max) << "it does not come to an end";
            step();
            ASSERT_FALSE(testing::Test::HasFatalFailure());
        }
    }

    [[nodiscard]] Tokens const& said(SequenceId id) const { return said_.at(id); }

    [[nodiscard]] FakeCache const& cache(std::size_t rank) const { return caches_[rank]; }

private:
    struct Wanted {
        Tokens prompt;
        std::size_t length = 0;
        Tokens answer;
    };

    // As the scheduler does: the model's choice after each output; drafts are kept while they are
    // what the model says.
    void answer(StepOutput const& output, std::function<Tokens(Tokens const&)> const& guess) {
        auto& wanted = wanted_.at(output.sequence);
        auto const& sequence = batch.sequence(output.sequence);
        auto const& cached = caches_.front().text(*sequence.slot);
        ASSERT_EQ(cached.size(), sequence.tokens.size());
        std::uint32_t kept = 0;
        for (;;) {
            auto const length = cached.size() - (output.count - 1) + kept;
            auto const token =
                next_token({cached.begin(), cached.begin() + std::ptrdiff_t(length)});
            wanted.answer.push_back(token);
            if (wanted.answer.size() == wanted.length) {
                EXPECT_EQ(wanted.answer, answer_alone(wanted.prompt, wanted.length));
                said_[output.sequence] = wanted.answer;
                cancel(output.sequence);
                return;
            }
            if (kept + 1 < output.count && sequence.tokens[length] == token) {
                ++kept;
                continue;
            }
            batch.accept(output.sequence, kept, token);
            break;
        }
        if (guess && batch.kind().cuttable) {
            auto drafts = guess(sequence.tokens);
            auto const room = limits_.context_length - sequence.tokens.size();
            drafts.resize(std::min({drafts.size(), room, std::size_t(batch.drafts_max())}));
            batch.draft(output.sequence, drafts);
        }
    }

    PlanLimits limits_;

public:
    Batch batch;
    std::uint32_t prompt_tokens_max = 1000;
    Step last;

private:
    std::vector<FakeCache> caches_;
    std::map<SequenceId, Wanted> wanted_;
    std::map<SequenceId, Tokens> said_;
    std::uint64_t number_ = 0;
};

TEST(Batch, a_prompt_is_computed_and_answered) {
    Ranks ranks(1);
    auto const id = ranks.ask({5, 6, 7}, 4);
    ranks.run();
    EXPECT_EQ(ranks.said(id), answer_alone({5, 6, 7}, 4));
}

TEST(Batch, a_sequence_joins_while_another_generates_and_both_share_the_step) {
    Ranks ranks(1);
    ranks.ask(prompt_of(10), 20);
    ranks.step();
    ranks.ask(prompt_of(10, 500), 20);
    ranks.step();
    EXPECT_EQ(ranks.last.sequences.size(), 2u);
    EXPECT_EQ(ranks.last.plan.tokens.size(), 11u);
    EXPECT_EQ(ranks.last.prompt_tokens, 10u);
    ranks.run();
}

TEST(Batch, beside_an_answer_a_prompt_goes_in_by_the_chunk) {
    Ranks ranks(1);
    ranks.ask(prompt_of(10), 30);
    ranks.step();
    ranks.prompt_tokens_max = 7;
    ranks.ask(prompt_of(50, 500), 2);
    for (int i = 0; i < 7; ++i) {
        ranks.step();
        EXPECT_EQ(ranks.last.outputs.size(), 1u); // The answer goes on in every step.
        EXPECT_EQ(ranks.last.prompt_tokens, 7u);
    }
    ranks.run();
}

TEST(Batch, a_cancelled_prompt_is_not_in_the_next_step) {
    Ranks ranks(1);
    auto const long_one = ranks.ask(prompt_of(200), 2);
    ranks.step();
    EXPECT_EQ(ranks.batch.sequence(long_one).cached, 64u);
    ranks.cancel(long_one);
    EXPECT_TRUE(ranks.batch.idle());
    auto const next = ranks.ask(prompt_of(10, 500), 2);
    ranks.step();
    EXPECT_EQ(ranks.last.sequences, std::vector<SequenceId>{next});
    ranks.run();
}

TEST(Batch, a_conversation_that_goes_on_computes_only_what_is_new) {
    Ranks ranks(1);
    auto const first = ranks.ask(prompt_of(40), 10);
    ranks.run();
    auto text = prompt_of(40);
    text.insert(text.end(), ranks.said(first).begin(), ranks.said(first).end());
    text.insert(text.end(), {1, 2, 3});
    auto const second = ranks.ask(text, 3);
    ranks.step();
    EXPECT_EQ(ranks.batch.sequence(second).reused, 49u); // The last answer token had no cell.
    EXPECT_EQ(ranks.last.plan.tokens.size(), 4u);
    EXPECT_TRUE(ranks.last.plan.changes.empty());
    ranks.run();
}

TEST(Batch, the_same_prompt_again_computes_one_token) {
    Ranks ranks(1);
    ranks.ask(prompt_of(40), 3);
    ranks.run();
    ranks.ask(prompt_of(40), 3);
    ranks.step();
    EXPECT_EQ(ranks.last.plan.tokens.size(), 1u);
    ranks.run();
}

TEST(Batch, requests_that_come_together_compute_their_common_beginning_once) {
    Ranks ranks(1);
    for (int i = 0; i < 4; ++i) {
        auto prompt = prompt_of(100);
        prompt.push_back(900 + i);
        ranks.ask(prompt, 5);
    }
    std::size_t tokens = 0;
    while (!ranks.batch.idle()) {
        ranks.step();
        tokens += ranks.last.plan.tokens.size();
    }
    EXPECT_EQ(tokens, 100u + 4 * 5);
}

TEST(Batch, shared_cells_count_once_when_there_is_room_to_find) {
    Ranks ranks(1); // 256 cells for two texts of 200.
    auto one = prompt_of(180);
    auto two = one;
    one.resize(200, 901);
    two.resize(200, 902);
    ranks.ask(one, 10);
    while (ranks.last.outputs.empty()) {
        ranks.step();
    }
    ranks.ask(two, 5);
    ranks.step();
    EXPECT_EQ(ranks.last.sequences.size(), 2u);
    ranks.run();
}

TEST(Batch, a_short_prompt_overtakes_a_long_one) {
    Ranks ranks(1);
    ranks.ask(prompt_of(200), 2);
    auto const short_one = ranks.ask(prompt_of(10, 500), 2);
    ranks.step();
    EXPECT_EQ(ranks.last.outputs.at(0).sequence, short_one);
    ranks.run();
}

// New short prompts without end do not keep a long one from its turn.
TEST(Batch, a_long_prompt_is_not_starved) {
    Ranks ranks(1);
    auto const long_one = ranks.ask(prompt_of(150), 1);
    std::int32_t other = 200;
    for (int step = 0; step < 6; ++step) {
        for (int i = 0; i < 3; ++i) {
            ranks.ask(prompt_of(20, other), 1);
            other = 200 + (other + 20) % 700;
        }
        ranks.step();
    }
    EXPECT_NO_THROW((void)ranks.said(long_one));
    ranks.run();
}

TEST(Batch, no_more_than_allowed_run_at_a_time) {
    Ranks ranks(1, limits, /*parallel=*/2);
    for (int i = 0; i < 5; ++i) {
        ranks.ask(prompt_of(5, 100 * i), 5);
    }
    ranks.step();
    EXPECT_EQ(ranks.last.sequences.size(), 2u);
    EXPECT_EQ(ranks.batch.waiting(), 3u);
    ranks.run();
}

TEST(Batch, answers_that_outgrow_the_cache_pause_and_lose_nothing) {
    Ranks ranks(1);
    std::vector<SequenceId> ids;
    for (int i = 0; i < 4; ++i) {
        ids.push_back(ranks.ask(prompt_of(40, 100 * i), 100));
    }
    ranks.run(1000);
    for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(ranks.said(ids[std::size_t(i)]), answer_alone(prompt_of(40, 100 * i), 100));
    }
}

TEST(Batch, one_sequence_may_fill_the_whole_cache) {
    Ranks ranks(1);
    ranks.ask(prompt_of(30, 500), 10);
    auto const id = ranks.ask(prompt_of(250), 7); // The last token needs no cell.
    ranks.run();
    EXPECT_EQ(ranks.said(id).size(), 7u);
}

TEST(Batch, drafts_change_no_answer_whether_right_or_wrong) {
    Random random(3);
    Ranks ranks(2);
    std::size_t steps = 0;
    auto const id = ranks.ask(prompt_of(10), 60);
    auto const other = ranks.ask(prompt_of(10, 500), 60);
    while (!ranks.batch.idle()) {
        ranks.step([&](Tokens const& text) {
            auto drafts = answer_alone(text, random.below(6));
            if (!drafts.empty() && random.chance(1, 2)) {
                drafts[random.below(drafts.size())] = 77;
            }
            return drafts;
        });
        ASSERT_FALSE(HasFatalFailure());
        ++steps;
    }
    EXPECT_EQ(ranks.said(id), answer_alone(prompt_of(10), 60));
    EXPECT_EQ(ranks.said(other), answer_alone(prompt_of(10, 500), 60));
    EXPECT_LT(steps, 50u);
}

// With a window of 4, of which older cells are gone, only the very end can be gone on from.
TEST(Batch, what_an_answer_leaves_behind_ends_with_its_text_and_not_with_drafts) {
    auto const first_position = [](std::uint32_t) { return 18; };
    Batch batch(limits, 8);
    batch.set_kind({.cuttable = true, .window = 4});
    auto const id = batch.add(prompt_of(20));
    (void)batch.next(64, first_position);
    batch.accept(id, 0, 500);
    batch.draft(id, Tokens{1, 2, 3});
    (void)batch.next(64, first_position);
    batch.remove(id);
    auto turn = prompt_of(20);
    turn.insert(turn.end(), {500, 600, 700});
    auto const next = batch.add(turn);
    (void)batch.next(64, first_position);
    EXPECT_EQ(batch.sequence(next).reused, 21u);
}

TEST(Batch, drafts_give_way_before_a_sequence_pauses) {
    auto own = limits;
    own.context_length = 32;
    Ranks ranks(1, own);
    auto const id = ranks.ask(prompt_of(10), 6);
    auto const other = ranks.ask(prompt_of(10, 500), 6);
    while (!ranks.batch.idle()) {
        ranks.step([](Tokens const& text) { return answer_alone(text, 7); });
        ASSERT_FALSE(HasFatalFailure());
    }
    EXPECT_EQ(ranks.said(id).size() + ranks.said(other).size(), 12u);
}

// A machine on which a token of a prompt takes 3 ms, and a step 50 ms on top, more or less.
TEST(Batch, an_answer_does_not_wait_longer_for_prompts_than_it_should) {
    auto own = limits;
    own.context_length = 1024;
    Ranks ranks(1, own);
    Random random(5);
    StepCost cost;
    ranks.ask(prompt_of(10), 300);
    ranks.step();
    std::int32_t first = 0;
    for (int step = 0; step < 200; ++step) {
        if (random.chance(1, 4)) {
            ranks.ask(
                prompt_of(1 + random.below(150), first = (first + 151) % 850), 1 + random.below(10)
            );
        }
        ranks.prompt_tokens_max = cost.prompt_tokens_within(100ms);
        ranks.step();
        EXPECT_EQ(ranks.last.outputs.front().sequence, 0u); // It is in every step.
        auto const time = (50ms + 3ms * ranks.last.prompt_tokens) * (95 + random.below(11)) / 100;
        EXPECT_LE(time, 50ms + 100ms * 12 / 10) << step;
        cost.note(ranks.last.prompt_tokens, time);
    }
    ranks.run();
}

// A prompt of up to 120 tokens; many begin alike.
Tokens random_prompt(Random& random) {
    auto const common = random.below(3) * 30;
    auto prompt = prompt_of(common);
    auto const length = common + 1 + random.below(60);
    while (prompt.size() < length) {
        prompt.push_back(std::int32_t(random.below(1000)));
    }
    return prompt;
}

// Whatever comes together, in whatever kind of cache: every rank obeys every plan, all caches stay
// the same, everything ends, and no answer depends on the other one.
TEST(Batch, a_thousand_random_pairs_run_on_two_ranks_without_a_deadlock) {
    for (std::uint64_t seed = 0; seed < 1000; ++seed) {
        Random random(seed);
        auto own = limits;
        own.context_length = 192;
        own.sequences_max = 2 + std::uint32_t(random.below(3));
        Ranks ranks(2, own, 2, {.cuttable = random.chance(2, 3)});
        ranks.prompt_tokens_max = 1 + std::uint32_t(random.below(40));
        for (int pair = 0; pair < 3; ++pair) {
            ranks.ask(random_prompt(random), 1 + random.below(70));
            for (auto steps = random.below(4); steps > 0 && !ranks.batch.idle(); --steps) {
                ranks.step();
            }
            auto const second = ranks.ask(random_prompt(random), 1 + random.below(70));
            if (random.chance(1, 8)) {
                ranks.step();
                ranks.cancel(second);
            }
            ranks.run(1000);
            ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
            for (std::uint32_t slot = 0; slot < own.sequences_max; ++slot) {
                ASSERT_EQ(ranks.cache(0).text(slot), ranks.cache(1).text(slot)) << "seed " << seed;
            }
        }
    }
}

// Many at once in a cache that holds few of them, with drafts, coming and going.
TEST(Batch, a_crowd_in_a_small_cache_comes_to_an_end) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
        Random random(seed);
        Ranks ranks(1, limits, 8, {.cuttable = random.chance(2, 3)});
        ranks.prompt_tokens_max = 1 + std::uint32_t(random.below(40));
        std::size_t left = 30;
        for (std::size_t steps = 0; left > 0 || !ranks.batch.idle(); ++steps) {
            ASSERT_LT(steps, 20'000u) << "seed " << seed;
            if (left > 0 && random.chance(1, 2)) {
                --left;
                ranks.ask(random_prompt(random), 1 + random.below(130));
            }
            if (!ranks.batch.idle()) {
                ranks.step([&](Tokens const& text) { return answer_alone(text, random.below(4)); });
                ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
            }
        }
    }
}

} // namespace
} // namespace exo::engine
