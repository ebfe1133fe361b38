// SPDX-License-Identifier: Apache-2.0
//
// What happens to a cluster, by name. Each scenario is a function of a seed; it throws Violation
// when something that specs/cluster.md promises does not hold.
#pragma once

#include "sim/world.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace exo::sim {

struct Run {
    std::uint64_t seed = 0;
    std::size_t node_count = 0; // 0: the seed decides.
    bool verbose = false;
};

struct Scenario {
    std::string_view name;
    std::string_view what;
    std::uint64_t (*run)(Run const& run); // The hash of its trace.
};

[[nodiscard]] std::span<Scenario const> scenarios();

} // namespace exo::sim
