// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/prompt_lookup.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace exo::engine {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens propose(Tokens const& tokens, std::uint32_t most) {
    return PromptLookup().propose(0, tokens, most);
}

TEST(PromptLookup, what_followed_before_is_proposed) {
    EXPECT_EQ(propose({7, 1, 2, 3, 4, 5, 9, 1, 2}, 3), (Tokens{3, 4, 5}));
}

TEST(PromptLookup, one_equal_token_is_no_match) {
    EXPECT_EQ(propose({1, 2, 3, 9, 1}, 3), Tokens{});
    EXPECT_EQ(propose({1, 2, 3, 4}, 3), Tokens{});
    for (Tokens const& few : {Tokens{}, Tokens{1}, Tokens{1, 1}}) {
        EXPECT_EQ(propose(few, 3), Tokens{});
    }
}

TEST(PromptLookup, the_longest_match_wins_over_a_later_one) {
    EXPECT_EQ(propose({1, 2, 3, 50, 8, 2, 3, 60, 1, 2, 3}, 1), Tokens{50});
}

TEST(PromptLookup, of_equal_matches_the_latest_wins) {
    EXPECT_EQ(propose({1, 2, 50, 1, 2, 60, 9, 1, 2}, 1), Tokens{60});
}

TEST(PromptLookup, a_repetition_goes_on_as_long_as_wanted) {
    EXPECT_EQ(propose({9, 1, 2, 1, 2}, 5), (Tokens{1, 2, 1, 2, 1}));
    EXPECT_EQ(propose({5, 5, 5}, 4), (Tokens{5, 5, 5, 5}));
}

TEST(PromptLookup, nothing_is_proposed_when_nothing_is_wanted) {
    EXPECT_EQ(propose({1, 2, 3, 1, 2}, 0), Tokens{});
}

TEST(PromptLookup, what_is_further_back_than_the_window_is_not_seen) {
    Tokens tokens(lookup_window + 10);
    std::iota(tokens.begin(), tokens.end(), 1000);
    tokens.push_back(1000);
    tokens.push_back(1001);
    EXPECT_EQ(propose(tokens, 2), Tokens{});
    tokens.back() = tokens[20] + 1;
    tokens[tokens.size() - 2] = tokens[20];
    EXPECT_EQ(propose(tokens, 2), (Tokens{tokens[22], tokens[23]}));
}

} // namespace
} // namespace exo::engine
