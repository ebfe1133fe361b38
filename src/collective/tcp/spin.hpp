// SPDX-License-Identifier: Apache-2.0
//
// Whether to look again and again for a while before going to sleep. It pays when the other rank is
// about as fast as we are and has a core of its own; when it does not pay, it takes time from those
// who compute. So each vain spin doubles the number of waits that are then not spun, and a spin
// that paid starts anew. Pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace exo::collective {

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

    void paid() { vain_ = 0; }

    void was_vain() {
        vain_ = std::min(vain_ + 1, doublings_max);
        skips_left_ = 1u << vain_;
    }

private:
    static constexpr std::uint32_t doublings_max = 8; // One spin in 256 waits still tries.

    std::uint32_t vain_ = 0;
    std::uint32_t skips_left_ = 0;
};

} // namespace exo::collective
