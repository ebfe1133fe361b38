// SPDX-License-Identifier: Apache-2.0
#include "sim/scenarios.hpp"

#include <gtest/gtest.h>

namespace exo::sim {
namespace {

constexpr std::uint64_t seed_count = 300;

class Scenarios : public testing::TestWithParam<Scenario> {};

TEST_P(Scenarios, hold_for_every_seed) {
    for (std::uint64_t seed = 1; seed <= seed_count; ++seed) {
        try {
            (void)GetParam().run({.seed = seed});
        } catch (Violation const& violation) {
            FAIL() << violation.what() << "\n  exo_sim --scenario " << GetParam().name << " --seed "
                   << seed << " -v";
        }
    }
}

TEST_P(Scenarios, give_the_same_trace_for_the_same_seed) {
    auto const& scenario = GetParam();
    auto const first = scenario.run({.seed = 7});
    EXPECT_EQ(scenario.run({.seed = 7}), first);
    EXPECT_NE(scenario.run({.seed = 8}), first);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    Scenarios,
    testing::ValuesIn(scenarios().begin(), scenarios().end()),
    [](auto const& row) { return std::string(row.param.name); }
);

} // namespace
} // namespace exo::sim
