// SPDX-License-Identifier: Apache-2.0
//
// What is known of one sequence serves another as far as they begin alike. Pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace exo::engine {

// How many tokens are equal from the first on.
[[nodiscard]] inline std::uint32_t
common_beginning(std::span<std::int32_t const> left, std::span<std::int32_t const> right) {
    auto const [end, other] = std::ranges::mismatch(left, right);
    return static_cast<std::uint32_t>(end - left.begin());
}

} // namespace exo::engine
