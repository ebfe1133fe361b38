// SPDX-License-Identifier: Apache-2.0
//
// Drafts what followed the last time that the sequence went as it goes now: answers that quote
// their prompt (summaries, code to be edited, tables) repeat long stretches of it. Pure.
#pragma once

#include "engine/draft/drafter.hpp"

namespace exo::engine {

// One token that was there before says nothing of the next.
constexpr std::size_t lookup_match_min = 2;
// As good as unique: no longer match is looked for.
constexpr std::size_t lookup_match_most = 16;
// Tokens to look back: bounds the cost of a step, some 10 us.
constexpr std::size_t lookup_window = 32'768;

class PromptLookup final : public Drafter {
public:
    // The continuation of the longest earlier match of the last tokens; of several the latest. One
    // that reaches the end of the sequence goes on as a repetition.
    [[nodiscard]] std::vector<std::int32_t>
    propose(std::uint32_t slot, std::span<std::int32_t const> tokens, std::uint32_t most) override;

    void forget(std::uint32_t) override {}
};

} // namespace exo::engine
