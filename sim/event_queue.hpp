// SPDX-License-Identifier: Apache-2.0
//
// Virtual time: actions in the order of their time, and of their making when times are equal.
#pragma once

#include "base/assert.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

namespace exo::sim {

class EventQueue {
public:
    [[nodiscard]] TimePoint now() const { return now_; }

    void at(TimePoint time, std::function<void()> action) {
        EXO_ASSERT(time >= now_);
        actions_.emplace(std::pair(time, count_++), std::move(action));
    }

    void after(Duration delay, std::function<void()> action) {
        at(now_ + delay, std::move(action));
    }

    // Runs all actions up to `time`, then it is `time`.
    void run_until(TimePoint time) {
        while (!actions_.empty() && actions_.begin()->first.first <= time) {
            auto next = actions_.extract(actions_.begin());
            now_ = next.key().first;
            next.mapped()();
        }
        now_ = time;
    }

private:
    TimePoint now_;
    std::uint64_t count_ = 0;
    std::map<std::pair<TimePoint, std::uint64_t>, std::function<void()>> actions_;
};

} // namespace exo::sim
