// SPDX-License-Identifier: Apache-2.0
//
// Whether a wait looks at its sockets again and again for a while before it goes to sleep. A sleep
// and a wake-up cost up to 100 us on a virtual machine, 60 times a token with a small model;
// looking costs nothing as long as nobody else needs the core. So a spinning thread offers its core
// again and again (sched_yield), and learns from the time that this takes whether someone took it:
// then it sleeps at once, and each time doubles the number of waits that do not spin. That the
// other rank computes for longer is no such sign. Pure.
#pragma once

#include "base/time.hpp"

#include <algorithm>
#include <cstdint>

namespace exo::collective {

// A yield that comes back so late has let another thread compute: less than any time slice, more
// than an interrupt takes.
constexpr Duration core_taken_min = 200us;

class SpinPolicy {
public:
    // Asked once for each wait.
    [[nodiscard]] bool next_wait_spins() {
        if (skips_left_ > 0) {
            --skips_left_;
            return false;
        }
        return true;
    }

    // What was waited for came while spinning.
    void paid() { taken_ = 0; }

    // Another thread needed the core meanwhile.
    void core_was_taken() {
        taken_ = std::min(taken_ + 1, doublings_max);
        skips_left_ = 1u << taken_;
    }

private:
    static constexpr std::uint32_t doublings_max = 8; // One spin in 256 waits still tries.

    std::uint32_t taken_ = 0;
    std::uint32_t skips_left_ = 0;
};

} // namespace exo::collective
