// SPDX-License-Identifier: Apache-2.0
#include "runner/process.hpp"

#include <ggml.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace exo::runner {
namespace {

void say_and_leave(std::string const& reason) {
    std::fprintf(stderr, "last words: %s\n", reason.c_str());
    std::_Exit(3);
}

TEST(ProcessDeathTest, an_abort_of_ggml_gives_its_reason) {
    EXPECT_EXIT(
        {
            set_last_words(say_and_leave);
            ggml_abort("file.c", 7, "%s", "heads do not divide");
        },
        testing::ExitedWithCode(3),
        "last words: ggml aborted: .*heads do not divide"
    );
}

TEST(Process, variables_that_change_graphs_are_removed) {
    setenv("GGML_SCHED_DEBUG", "2", 1);
    setenv("LLAMA_GRAPH_REUSE_DISABLE", "1", 1);
    setenv("GGML_VK_VISIBLE_DEVICES", "1", 1);
    prepare_process();
    EXPECT_EQ(std::getenv("GGML_SCHED_DEBUG"), nullptr);
    EXPECT_EQ(std::getenv("LLAMA_GRAPH_REUSE_DISABLE"), nullptr);
    EXPECT_STREQ(std::getenv("GGML_VK_VISIBLE_DEVICES"), "1");
    EXPECT_STREQ(std::getenv("GGML_NO_BACKTRACE"), "1");
}

} // namespace
} // namespace exo::runner
