// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/vocabulary.hpp"
#include "model/settings.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace exo::engine {
namespace {

using Words = std::vector<std::string_view>;

TEST(Vocabulary, equal_words_serve) {
    EXPECT_EQ(vocabulary_difference(Words{"a", "b"}, Words{"a", "b"}), std::nullopt);
}

TEST(Vocabulary, padding_at_the_end_of_either_is_no_difference) {
    EXPECT_EQ(vocabulary_difference(Words{"a", "b", "[PAD]"}, Words{"a", "b"}), std::nullopt);
    EXPECT_EQ(vocabulary_difference(Words{"a"}, Words{"a", "x"}), std::nullopt);
}

TEST(Vocabulary, another_word_is_told_with_its_number) {
    EXPECT_EQ(
        vocabulary_difference(Words{"a", "b"}, Words{"a", "c"}),
        "token 1 is 'c' to it and 'b' to the model"
    );
}

TEST(Vocabulary, much_longer_or_shorter_is_another_vocabulary) {
    Words const many(model::draft_padding_most + 2, "w");
    EXPECT_NE(vocabulary_difference(many, Words{"w"}), std::nullopt);
    EXPECT_NE(vocabulary_difference(Words{"w"}, many), std::nullopt);
}

} // namespace
} // namespace exo::engine
