// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/verify.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace exo::engine {
namespace {

using Tokens = std::vector<std::int32_t>;

constexpr std::int32_t end = 99;

struct Checked {
    Verdict verdict;
    Tokens answer;       // All that was taken.
    std::uint32_t asked; // Outputs that were sampled from.
};

// `chosen`: what the sampler would choose after each output.
Checked check(Tokens const& drafts, Tokens const& chosen) {
    Checked checked{};
    checked.verdict = verify(
        drafts,
        [&](std::uint32_t i) {
            EXPECT_EQ(i, checked.asked) << "in order, once each";
            ++checked.asked;
            return chosen.at(i);
        },
        [&](std::int32_t token) {
            checked.answer.push_back(token);
            return token == end;
        }
    );
    return checked;
}

TEST(Verify, without_drafts_one_token_is_chosen) {
    auto const checked = check({}, {5});
    EXPECT_EQ(checked.verdict, (Verdict{0, 5}));
    EXPECT_EQ(checked.answer, Tokens{5});
}

TEST(Verify, drafts_that_are_right_bring_one_more) {
    auto const checked = check({1, 2, 3}, {1, 2, 3, 4});
    EXPECT_EQ(checked.verdict, (Verdict{3, 4}));
    EXPECT_EQ(checked.answer, (Tokens{1, 2, 3, 4}));
}

TEST(Verify, a_wrong_draft_is_replaced_and_nothing_after_it_is_sampled) {
    auto const checked = check({1, 2, 3}, {1, 7, 3, 4});
    EXPECT_EQ(checked.verdict, (Verdict{1, 7}));
    EXPECT_EQ(checked.answer, (Tokens{1, 7}));
    EXPECT_EQ(checked.asked, 2u);
}

TEST(Verify, an_answer_may_end_within_the_drafts) {
    auto const checked = check({1, end, 3}, {1, end, 3, 4});
    EXPECT_EQ(checked.verdict, (Verdict{1, std::nullopt}));
    EXPECT_EQ(checked.asked, 2u);
}

TEST(Verify, an_answer_may_end_where_a_draft_was_wrong) {
    EXPECT_EQ(check({1, 2}, {1, end, 0}).verdict, (Verdict{1, std::nullopt}));
}

} // namespace
} // namespace exo::engine
