// SPDX-License-Identifier: Apache-2.0
//
// Which tokens of which sequences go into the next step. Sequences that generate come first, so
// that no prompt stops them; prompts share a budget. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace exo::engine {

// A sequence: `total` tokens are known, the first `cached` of them are in the cache, and logits are
// wanted after each of the last `outputs`. Invariant: cached + outputs <= total.
struct SequenceView {
    std::uint32_t cached = 0;
    std::uint32_t total = 0;
    std::uint32_t outputs = 1;
    bool waits = false; // Gets nothing in this step.

    [[nodiscard]] std::uint32_t pending() const { return total - cached; }

    // Nothing but what the next tokens are chosen from is left.
    [[nodiscard]] bool generates() const { return !waits && pending() == outputs; }

    bool operator==(SequenceView const&) const = default;
};

struct PlannerLimits {
    std::uint32_t step_tokens_max = 0;
    std::uint32_t prompt_tokens_max = 0; // In a step in which other sequences generate.
    std::uint32_t micro_batch = 0;
    std::uint32_t cells = 0; // Free for this step.
};

// The next `count` tokens of the sequence with that index.
struct Chunk {
    std::size_t index = 0;
    std::uint32_t count = 0;

    bool operator==(Chunk const&) const = default;
};

// `sequences` from the oldest to the youngest. All outputs are within the last micro-batch of the
// step. Of the prompts' budget the oldest gets half at least, so that none waits forever; the rest
// goes to those with the least to do, so that a short prompt overtakes a long one.
// REQUIRES: cells, a micro-batch and the step hold all tokens of the sequences that generate.
[[nodiscard]] std::vector<Chunk>
choose(std::span<SequenceView const> sequences, PlannerLimits const& limits);

} // namespace exo::engine
