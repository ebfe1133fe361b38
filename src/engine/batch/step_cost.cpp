// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/step_cost.hpp"

#include <algorithm>
#include <chrono>

namespace exo::engine {
namespace {

// Before anything was measured. On 5 tokens/s of prefill, the slowest that anybody would bear,
// these are 3 seconds, once.
constexpr std::uint32_t first_prompt_tokens = 16;
// The part of a new measurement in the estimate. Cost that rises is believed sooner than cost that
// falls: too many tokens make a stream wait, too few only cost a little speed.
constexpr double rise = 0.5;
constexpr double fall = 0.25;
// Of a step's time at least so much is put down to the prompt, whatever steps without one took: a
// guess from the difference of two noisy numbers must not become nothing.
constexpr double least_part = 0.125;
// What is aimed at, of the wait: the next step may be dearer than those before (a longer context,
// a busy machine) and is to stay within it all the same.
constexpr double aim = 0.75;

double towards(double estimate, double sample, double weight = 1) {
    return estimate + (sample - estimate) * weight * (sample > estimate ? rise : fall);
}

} // namespace

void StepCost::note(std::uint32_t prompt_tokens, Duration time) {
    auto const seconds = std::chrono::duration<double>(time).count();
    if (prompt_tokens == 0) {
        answers_ = answers_ == 0 ? seconds : towards(answers_, seconds);
        return;
    }
    auto const added = std::max(seconds - answers_, seconds * least_part);
    auto const sample = added / prompt_tokens;
    // The few tokens at the end of a prompt say little: most of what they seem to add is noise.
    auto const weight = std::min(1.0, 4.0 * prompt_tokens / std::max(1u, tried_));
    per_token_ = per_token_ == 0 ? sample : towards(per_token_, sample, weight);
    // The memory of large steps fades, for the cost of a large one may have changed.
    tried_ = std::max(prompt_tokens, tried_ - tried_ / 4);
}

std::uint32_t StepCost::prompt_tokens_within(Duration wait) const {
    if (per_token_ <= 0) {
        return first_prompt_tokens;
    }
    auto const tokens = std::chrono::duration<double>(wait).count() * aim / per_token_;
    return static_cast<std::uint32_t>(std::clamp(tokens, 1.0, 2.0 * tried_));
}

} // namespace exo::engine
