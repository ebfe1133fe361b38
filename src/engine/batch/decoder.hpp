// SPDX-License-Identifier: Apache-2.0
//
// What one rank does with a step plan: the same llama.cpp calls as all others. After each decode it
// looks at the latch of the cluster device; logits of a failed step must not be used.
#pragma once

#include "base/result.hpp"
#include "engine/batch/step_plan.hpp"
#include "engine/load/loader.hpp"

#include <span>

namespace exo::engine {

class Decoder {
public:
    // `loaded` must outlive the object.
    Decoder(LoadedModel& loaded, PlanLimits limits);

    // Errors: protocol (a bad plan), those of the cluster, internal (llama.cpp refused).
    Result<void> execute(StepPlan const& plan);

    // After the token at `index` of the last plan, which asked for them. Rank 0 only.
    [[nodiscard]] std::span<float const> logits(std::size_t index) const;

    // All sequences leave the cache, without a plan: for the end of a warm-up.
    void clear();

    [[nodiscard]] std::uint64_t next_number() const { return next_number_; }

    [[nodiscard]] PlanLimits const& limits() const { return limits_; }

private:
    LoadedModel& loaded_;
    PlanLimits limits_;
    std::uint64_t next_number_ = 0;
};

} // namespace exo::engine
