// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "engine/draft/draft_length.hpp"

#include <gtest/gtest.h>

namespace exo::engine {
namespace {

TEST(DraftLength, grows_while_all_are_right_up_to_the_most) {
    DraftLength length(8);
    EXPECT_EQ(length.next(), 4u);
    length.note(4, 4);
    EXPECT_EQ(length.next(), 6u);
    length.note(6, 6);
    length.note(8, 8);
    EXPECT_EQ(length.next(), 8u);
}

TEST(DraftLength, begins_no_higher_than_the_most) {
    EXPECT_EQ(DraftLength(2).next(), 2u);
}

TEST(DraftLength, shrinks_to_one_more_than_were_right) {
    DraftLength length(16);
    length.note(4, 1);
    EXPECT_EQ(length.next(), 2u);
    length.note(2, 0);
    EXPECT_EQ(length.next(), 1u);
}

// A drafter may give fewer than were asked for.
TEST(DraftLength, grows_from_what_was_drafted) {
    DraftLength length(16);
    length.note(1, 1);
    EXPECT_EQ(length.next(), 3u);
}

std::uint32_t rest_of(DraftLength& length) {
    std::uint32_t steps = 0;
    for (; length.next() == 0; ++steps) {
        length.pass();
    }
    return steps;
}

void miss_until_rest(DraftLength& length) {
    while (length.next() > 0) {
        length.note(length.next(), 0);
    }
}

TEST(DraftLength, rests_after_three_misses_and_longer_each_time) {
    DraftLength length(8);
    length.note(4, 0);
    length.note(1, 0);
    EXPECT_GT(length.next(), 0u);
    length.note(1, 0);
    EXPECT_EQ(rest_of(length), 8u);
    miss_until_rest(length);
    EXPECT_EQ(rest_of(length), 16u);
    for (int i = 0; i < 10; ++i) {
        miss_until_rest(length);
        EXPECT_LE(rest_of(length), 128u);
    }
}

TEST(DraftLength, one_that_is_right_makes_the_next_rest_short_again) {
    DraftLength length(8);
    miss_until_rest(length);
    (void)rest_of(length);
    length.note(1, 1);
    miss_until_rest(length);
    EXPECT_EQ(rest_of(length), 8u);
}

TEST(DraftLength, stays_within_its_limits_whatever_happens) {
    Random random(1);
    DraftLength length(7);
    for (int i = 0; i < 10'000; ++i) {
        auto const asked = length.next();
        ASSERT_LE(asked, 7u);
        if (asked == 0 || random.chance(1, 4)) {
            length.pass();
            continue;
        }
        auto const drafted = 1 + static_cast<std::uint32_t>(random.below(asked));
        length.note(drafted, static_cast<std::uint32_t>(random.below(drafted + 1)));
    }
}

TEST(DraftsForEach, a_step_is_shared_and_a_busy_batch_drafts_nothing) {
    EXPECT_EQ(drafts_for_each(0), 0u);
    EXPECT_EQ(drafts_for_each(1), 16u);
    EXPECT_EQ(drafts_for_each(2), 8u);
    EXPECT_EQ(drafts_for_each(3), 5u);
    EXPECT_EQ(drafts_for_each(4), 0u);
}

} // namespace
} // namespace exo::engine
