// SPDX-License-Identifier: Apache-2.0
//
// What the tokens of prompts add to the time of a step in which others generate, learned from such
// steps: it says how many of them a step may hold so that nobody waits long. Steps of prompts alone
// teach nothing: the ranks of a pipeline overlap in long ones, which makes them cheaper. Pure.
#pragma once

#include "base/time.hpp"

#include <cstdint>

namespace exo::engine {

class StepCost {
public:
    // A step of answers and `prompt_tokens` of prompts (0: none) took `time`.
    void note(std::uint32_t prompt_tokens, Duration time);

    // How many tokens of prompts add at most `wait` to a step; at least 1. As long as nothing is
    // known, few; and never more than twice what was tried lately.
    [[nodiscard]] std::uint32_t prompt_tokens_within(Duration wait) const;

private:
    double answers_ = 0;   // Seconds of a step without prompts; 0: not known.
    double per_token_ = 0; // Seconds that a prompt's token adds; 0: not known.
    std::uint32_t tried_ = 0;
};

} // namespace exo::engine
