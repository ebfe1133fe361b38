// SPDX-License-Identifier: Apache-2.0
#include "model/settings.hpp"

#include <gtest/gtest.h>

namespace exo::model {
namespace {

std::string fault_in(InstanceSettings const& settings) {
    auto const fault = find_fault(settings);
    return fault ? fault->field : "";
}

TEST(InstanceSettings, the_default_and_the_limits_are_good) {
    EXPECT_EQ(fault_in({}), "");
    EXPECT_EQ(
        fault_in(
            {.context_length = context_length_least,
             .parallel = parallel_most,
             .prompt_wait_ms = prompt_wait_ms_most,
             .draft_tokens = draft_tokens_most}
        ),
        ""
    );
}

TEST(InstanceSettings, a_value_out_of_range_is_found_by_its_field) {
    EXPECT_EQ(fault_in({.context_length = context_length_least - 1}), "context_length");
    EXPECT_EQ(fault_in({.context_length = context_length_most + 1}), "context_length");
    EXPECT_EQ(fault_in({.parallel = parallel_most + 1}), "parallel");
    EXPECT_EQ(fault_in({.prompt_wait_ms = prompt_wait_ms_most + 1}), "prompt_wait_ms");
    EXPECT_EQ(fault_in({.draft_tokens = draft_tokens_most + 1}), "draft_tokens");
}

TEST(InstanceSettings, a_fault_says_the_limits_and_the_value) {
    auto const fault = find_fault({.parallel = 300});
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->text, "an integer from 1 to 256 is needed, or 0 for exo's choice; it is 300");
}

} // namespace
} // namespace exo::model
