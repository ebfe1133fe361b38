// SPDX-License-Identifier: Apache-2.0
//
// Which tokens of which sequences go into the next step. Sequences that generate come first, one
// token each, so that a long prompt does not stop them; prompts share what is left, oldest first.
// Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace exo::engine {

// A sequence: `total` tokens are known, the first `cached` of them are in the cache.
// Invariant: cached < total.
struct SequenceView {
    std::uint32_t cached = 0;
    std::uint32_t total = 0;

    [[nodiscard]] std::uint32_t pending() const { return total - cached; }

    bool operator==(SequenceView const&) const = default;
};

struct PlannerLimits {
    std::uint32_t step_tokens_max = 0;
    std::uint32_t micro_batch = 0; // At least as many as there can be sequences.
    std::uint32_t cells = 0;       // Of the cache, for all sequences.
};

// The next `count` tokens of the sequence with that index.
struct Chunk {
    std::size_t index = 0;
    std::uint32_t count = 0;

    bool operator==(Chunk const&) const = default;
};

struct Choice {
    std::vector<Chunk> chunks;
    // These lose their cache so that the others fit, and begin anew later: the youngest first.
    std::vector<std::size_t> evicted;
};

// `sequences` from the oldest to the youngest; the oldest alone always fits. The choice is never
// empty if there is a sequence.
[[nodiscard]] Choice choose(std::span<SequenceView const> sequences, PlannerLimits const& limits);

} // namespace exo::engine
