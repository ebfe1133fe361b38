// SPDX-License-Identifier: Apache-2.0
//
// Time as pure code sees it: a parameter. Only drivers ask a clock (now()), and the simulator has
// its own.
#pragma once

#include <chrono>

namespace exo {

using Duration = std::chrono::nanoseconds;
// Monotonic; the wall clock decides nothing in exo.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

using namespace std::chrono_literals;

} // namespace exo
