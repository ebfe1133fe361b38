// SPDX-License-Identifier: Apache-2.0
//
// Tells whether the wall clock was set back. Avahi waits by the wall clock: after a step back it
// sleeps for as long as the step was. Pure: told both times.
#pragma once

#include "base/time.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace exo::net::dnssd {

class ClockWatch {
public:
    // What slewing and the reading of two clocks amount to is less.
    static constexpr Duration tolerance = 2s;

    // True if the wall clock is behind of where it was, in the course of all calls so far.
    [[nodiscard]] bool is_set_back(TimePoint steady, std::chrono::system_clock::time_point wall) {
        Duration const ahead = wall.time_since_epoch() - steady.time_since_epoch();
        farthest_ = std::max(farthest_.value_or(ahead), ahead);
        return ahead < *farthest_ - tolerance;
    }

private:
    std::optional<Duration> farthest_; // Wall clock ahead of the steady one.
};

} // namespace exo::net::dnssd
