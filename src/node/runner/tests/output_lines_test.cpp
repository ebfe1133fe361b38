// SPDX-License-Identifier: Apache-2.0
#include "node/runner/output_lines.hpp"

#include <gtest/gtest.h>

namespace exo::node {
namespace {

using Lines = std::vector<std::string>;

TEST(OutputLines, are_complete_at_their_end_whatever_the_cut) {
    OutputLines lines;
    EXPECT_EQ(lines.feed(as_bytes("one\ntw")), (Lines{"one"}));
    EXPECT_EQ(lines.feed(as_bytes("o")), Lines{});
    EXPECT_EQ(lines.last(), (Lines{"one", "two"}));
    EXPECT_EQ(lines.feed(as_bytes("\n\n\r\nthree\n")), (Lines{"two", "three"}));
    EXPECT_EQ(lines.last(), (Lines{"one", "two", "three"}));
}

TEST(OutputLines, keep_the_last_ones_only) {
    OutputLines lines;
    for (int i = 0; i < 100; ++i) {
        (void)lines.feed(as_bytes(std::to_string(i) + "\n"));
    }
    EXPECT_EQ(lines.last().size(), output_lines_kept);
    EXPECT_EQ(lines.last().back(), "99");
    (void)lines.feed(as_bytes("unfinished"));
    EXPECT_EQ(lines.last().size(), output_lines_kept);
    EXPECT_EQ(lines.last().back(), "unfinished");
}

TEST(OutputLines, are_cut_at_their_limit) {
    OutputLines lines;
    (void)lines.feed(as_bytes(std::string(10'000, 'x')));
    auto const complete = lines.feed(as_bytes("y\nz\n"));
    EXPECT_EQ(complete, (Lines{std::string(output_line_bytes_max, 'x'), "z"}));
}

TEST(OutputLines, cannot_move_a_cursor) {
    OutputLines lines;
    EXPECT_EQ(lines.feed(as_bytes("a\x1b[2Jb\tc\x7f\n")), (Lines{"a [2Jb c "}));
}

} // namespace
} // namespace exo::node
