// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/planner.hpp"

#include "base/assert.hpp"

#include <algorithm>
#include <numeric>

namespace exo::engine {
namespace {

bool generates(SequenceView const& sequence) {
    return sequence.pending() == 1;
}

// Takes tokens from the last prompt until all outputs (one for each sequence whose pending tokens
// all go in) are within the last micro-batch.
void fit_outputs(
    std::vector<Chunk>& chunks, std::span<SequenceView const> sequences, std::uint32_t micro_batch
) {
    for (;;) {
        std::uint32_t tokens = 0;
        std::uint32_t outputs = 0;
        for (auto const& chunk : chunks) {
            tokens += chunk.count;
            outputs += chunk.count == sequences[chunk.index].pending() ? 1 : 0;
        }
        if (tokens == 0 || outputs <= (tokens - 1) % micro_batch + 1) {
            return;
        }
        auto const longest =
            std::ranges::find_if(chunks.rbegin(), chunks.rend(), [](Chunk const& c) {
                return c.count > 1;
            });
        EXO_ASSERT(longest != chunks.rend()); // Else there is one token a sequence: they fit.
        --longest->count;
    }
}

} // namespace

Choice choose(std::span<SequenceView const> sequences, PlannerLimits const& limits) {
    EXO_ASSERT(sequences.size() <= limits.micro_batch);
    EXO_ASSERT(limits.micro_batch <= limits.step_tokens_max);
    Choice choice;
    auto const cells_after = [](std::uint32_t cells, SequenceView const& sequence) {
        return cells + sequence.cached + (generates(sequence) ? 1 : 0);
    };
    auto kept = sequences.size();
    while (kept > 1 &&
           std::accumulate(
               sequences.begin(), sequences.begin() + std::ptrdiff_t(kept), 0u, cells_after
           ) > limits.cells) {
        choice.evicted.push_back(--kept);
    }
    auto const running = sequences.first(kept);
    auto const cells_used = std::accumulate(running.begin(), running.end(), 0u, cells_after);
    auto free = limits.cells > cells_used ? limits.cells - cells_used : 0;
    auto budget = limits.step_tokens_max;
    for (std::size_t i = 0; i < running.size(); ++i) {
        if (generates(running[i])) {
            choice.chunks.push_back({i, 1});
            --budget;
        }
    }
    for (std::size_t i = 0; i < running.size(); ++i) {
        auto const count = std::min({running[i].pending(), budget, free});
        if (!generates(running[i]) && count > 0) {
            choice.chunks.push_back({i, count});
            budget -= count;
            free -= count;
        }
    }
    fit_outputs(choice.chunks, running, limits.micro_batch);
    return choice;
}

} // namespace exo::engine
