// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"
#include "engine/chat/answer_text.hpp"

#include <gtest/gtest.h>

namespace exo::engine {
namespace {

TEST(AnswerText, text_without_stop_strings_is_shown_at_once) {
    AnswerText text({});
    EXPECT_EQ(text.push("Hello").text, "Hello");
    EXPECT_EQ(text.push(" world").text, " world");
    EXPECT_EQ(text.flush(), "");
}

TEST(AnswerText, a_character_is_never_cut) {
    std::string const whole = "aé漢😀z";
    for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
        AnswerText text({});
        auto const first = text.push(whole.substr(0, cut)).text;
        auto const second = text.push(whole.substr(cut)).text;
        EXPECT_TRUE(is_utf8(first)) << cut;
        EXPECT_TRUE(is_utf8(second)) << cut;
        EXPECT_EQ(first + second, whole) << cut;
        EXPECT_EQ(text.flush(), "");
    }
}

TEST(AnswerText, bytes_one_by_one_give_the_same_text) {
    std::string const whole = "Größe 😀";
    AnswerText text({});
    std::string shown;
    for (char const byte : whole) {
        auto const part = text.push(std::string_view(&byte, 1)).text;
        EXPECT_TRUE(is_utf8(part));
        shown += part;
    }
    EXPECT_EQ(shown, whole);
}

TEST(AnswerText, what_is_no_character_becomes_the_replacement) {
    AnswerText text({});
    EXPECT_EQ(
        text.push("a\xFF"
                  "b")
            .text,
        "a\uFFFDb"
    );
    EXPECT_EQ(text.push("\xE2\x28").text, "\uFFFD(");
    EXPECT_EQ(text.push("\xED\xA0\x80").text, "\uFFFD"); // A surrogate.
    EXPECT_EQ(text.push("\xC0\xAF").text, "\uFFFD");     // Overlong.
}

TEST(AnswerText, a_character_that_never_ends_is_replaced_at_the_end) {
    AnswerText text({});
    EXPECT_EQ(text.push("ab\xF0\x9F").text, "ab");
    EXPECT_EQ(text.flush(), "\uFFFD");
}

TEST(AnswerText, a_stop_string_ends_the_text_and_is_not_shown) {
    AnswerText text({"END"});
    auto const shown = text.push("one END two");
    EXPECT_EQ(shown.text, "one ");
    EXPECT_TRUE(shown.stopped);
}

TEST(AnswerText, a_stop_string_over_several_pushes_does_not_leak) {
    AnswerText text({"<stop>"});
    EXPECT_EQ(text.push("a<s").text, "a");
    EXPECT_EQ(text.push("to").text, "");
    auto const last = text.push("p>b");
    EXPECT_EQ(last.text, "");
    EXPECT_TRUE(last.stopped);
}

TEST(AnswerText, what_only_looked_like_a_stop_string_is_shown_later) {
    AnswerText text({"<stop>"});
    EXPECT_EQ(text.push("a<st").text, "a");
    EXPECT_EQ(text.push("ay").text, "<stay");
    EXPECT_EQ(text.push("<").text, "");
    EXPECT_EQ(text.flush(), "<");
}

TEST(AnswerText, of_two_stop_strings_the_first_in_the_text_counts) {
    AnswerText text({"later", "soon"});
    EXPECT_EQ(text.push("x soon later").text, "x ");
}

TEST(AnswerText, a_stop_string_that_overlaps_itself_is_found) {
    AnswerText text({"aab"});
    EXPECT_EQ(text.push("xa").text, "x");
    EXPECT_EQ(text.push("a").text, "");
    EXPECT_EQ(text.push("a").text, "a");
    EXPECT_TRUE(text.push("b").stopped);
}

TEST(AnswerText, empty_stop_strings_are_ignored) {
    AnswerText text({"", "x"});
    EXPECT_FALSE(text.push("abc").stopped);
}

} // namespace
} // namespace exo::engine
