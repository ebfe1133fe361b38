// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/planner.hpp"

#include "base/assert.hpp"

#include <algorithm>
#include <utility>

namespace exo::engine {
namespace {

// Divides the budget; `prompts` from the oldest to the youngest, their counts are set.
void share_out(
    std::vector<Chunk>& prompts, std::span<SequenceView const> sequences, std::uint32_t budget
) {
    auto const give = [&](Chunk& prompt, std::uint32_t most) {
        auto const pending = sequences[prompt.index].pending();
        auto const count = std::min({pending - prompt.count, most, budget});
        prompt.count += count;
        budget -= count;
    };
    if (prompts.empty()) {
        return;
    }
    give(prompts.front(), budget - budget / 2);
    std::vector<Chunk*> shortest;
    for (auto& prompt : std::span(prompts).subspan(1)) {
        shortest.push_back(&prompt);
    }
    std::ranges::sort(shortest, {}, [&](Chunk const* prompt) {
        return std::pair(sequences[prompt->index].pending(), prompt->index);
    });
    shortest.push_back(&prompts.front()); // The oldest takes what is left over.
    for (auto* const prompt : shortest) {
        give(*prompt, budget);
    }
    std::erase_if(prompts, [](Chunk const& prompt) { return prompt.count == 0; });
}

// Takes tokens from the youngest prompts until all outputs are within the last micro-batch.
void fit_outputs(
    std::vector<Chunk>& prompts,
    std::span<SequenceView const> sequences,
    std::uint32_t generating,
    std::uint32_t micro_batch
) {
    for (;;) {
        auto tokens = generating;
        auto outputs = generating;
        for (auto const& prompt : prompts) {
            auto const& sequence = sequences[prompt.index];
            tokens += prompt.count;
            outputs += prompt.count == sequence.pending() ? sequence.outputs : 0;
        }
        if (tokens == 0 || outputs <= (tokens - 1) % micro_batch + 1) {
            return;
        }
        EXO_ASSERT(!prompts.empty()); // Else a micro-batch holds all: it is required.
        if (--prompts.back().count == 0) {
            prompts.pop_back();
        }
    }
}

} // namespace

std::vector<Chunk> choose(std::span<SequenceView const> sequences, PlannerLimits const& limits) {
    EXO_ASSERT(limits.micro_batch <= limits.step_tokens_max);
    std::vector<Chunk> chunks;
    std::vector<Chunk> prompts;
    std::uint32_t generating = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
        if (sequences[i].generates()) {
            chunks.push_back({i, sequences[i].outputs});
            generating += sequences[i].outputs;
        } else if (!sequences[i].waits) {
            prompts.push_back({i, 0});
        }
    }
    EXO_ASSERT(generating <= limits.cells && generating <= limits.micro_batch);
    auto budget = std::min(limits.step_tokens_max, limits.cells) - generating;
    if (generating > 0) {
        budget = std::min(budget, limits.prompt_tokens_max);
    }
    share_out(prompts, sequences, budget);
    fit_outputs(prompts, sequences, generating, limits.micro_batch);
    chunks.insert(chunks.end(), prompts.begin(), prompts.end());
    return chunks;
}

} // namespace exo::engine
