// SPDX-License-Identifier: Apache-2.0
#include "runner/settings_flags/settings_flags.hpp"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace exo::runner {
namespace {

model::InstanceSettings parsed(std::string const& line) {
    CLI::App app;
    model::InstanceSettings settings;
    add_settings_flags(app, settings);
    app.parse(line);
    return settings;
}

TEST(SettingsFlags, all_are_read) {
    EXPECT_EQ(
        parsed("--kv-cache-type q8_0 --parallel 4 --wire-type F16 --prompt-wait 90 "
               "--prompt-lookup --draft-tokens 5"),
        (model::InstanceSettings{
            .cache_type = model::CacheType::q8_0,
            .parallel = 4,
            .wire_type = model::WireType::f16,
            .prompt_wait_ms = 90,
            .prompt_lookup = true,
            .draft_tokens = 5
        })
    );
    EXPECT_EQ(parsed(""), model::InstanceSettings{});
}

TEST(SettingsFlags, what_no_instance_can_have_is_refused) {
    for (char const* const line :
         {"--kv-cache-type q9_0",
          "--parallel 257",
          "--wire-type f64",
          "--wire-type 2",
          "--prompt-wait -1",
          "--draft-tokens 17"}) {
        EXPECT_THROW(parsed(line), CLI::ParseError) << line;
    }
}

TEST(SettingsFlags, a_name_that_there_is_not_is_refused_with_those_that_there_are) {
    try {
        (void)parsed("--wire-type f64");
        FAIL() << "taken";
    } catch (CLI::ParseError const& error) {
        EXPECT_STREQ(error.what(), "--wire-type: 'f64' is none of automatic, f32, f16, q8");
    }
}

} // namespace
} // namespace exo::runner
