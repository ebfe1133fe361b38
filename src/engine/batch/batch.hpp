// SPDX-License-Identifier: Apache-2.0
//
// The sequences that rank 0 computes: they wait, are admitted when there is room, share each step
// (continuous batching), pause if others outgrow the cache, and leave. It makes the step plans;
// what tokens mean and how they are chosen is the scheduler's. Pure.
//
// Invariants: what runs is ordered from the oldest to the youngest; the oldest never pauses, so it
// ends, and then the next one is the oldest; a paused one waits at the front, with all its tokens,
// and loses nothing but time.
#pragma once

#include "engine/batch/cache_index.hpp"
#include "engine/batch/planner.hpp"
#include "engine/batch/step_plan.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace exo::engine {

using SequenceId = std::uint64_t;

struct Sequence {
    SequenceId id = 0;
    std::vector<std::int32_t> tokens; // Prompt, answer, then drafts.
    std::uint32_t drafts = 0;         // At the end of the tokens: guesses, not accepted yet.
    std::uint32_t cached = 0;         // The first of the tokens, which need no computing.
    std::uint32_t reused = 0;         // Of the prompt, when it first began.
    bool begun_before = false;

    std::optional<std::uint32_t> slot; // Once it has begun.

    // Logits are wanted after the last accepted token and each draft.
    [[nodiscard]] std::uint32_t outputs() const { return 1 + drafts; }

    [[nodiscard]] std::uint32_t pending() const {
        return static_cast<std::uint32_t>(tokens.size()) - cached;
    }

    [[nodiscard]] bool prefills() const { return pending() > outputs(); }
};

// Logits of one sequence: after the tokens of the plan at [first, first + count).
struct StepOutput {
    SequenceId sequence = 0;
    std::size_t first = 0;
    std::uint32_t count = 1;

    bool operator==(StepOutput const&) const = default;
};

struct Step {
    StepPlan plan;                     // Without a number.
    std::vector<SequenceId> sequences; // That have tokens in the plan.
    std::vector<StepOutput> outputs;
    std::uint32_t prompt_tokens = 0; // Of those that do not generate yet; the rest is answers.
};

class Batch {
public:
    // `parallel`: sequences that run at a time, at most limits.sequences_max; the other slots only
    // remember.
    Batch(PlanLimits const& limits, std::uint32_t parallel);

    // REQUIRES: before the first sequence.
    void set_kind(CacheKind kind) { cache_.set_kind(kind); }

    [[nodiscard]] CacheKind const& kind() const { return cache_.kind(); }

    // A prompt of 1 to limits.context_length tokens.
    SequenceId add(std::vector<std::int32_t> prompt);

    // It has ended, or nobody wants it any more. REQUIRES: it is here; so below.
    void remove(SequenceId id);

    [[nodiscard]] Sequence const& sequence(SequenceId id) const { return find(id); }

    [[nodiscard]] bool idle() const { return waiting_.empty() && running_.empty(); }

    [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }

    // The next step, taken as done: what is in it counts as cached. Beside sequences that generate
    // it has at most so many tokens of prompts. Never without tokens. REQUIRES: not idle(), and
    // all outputs of the step before were answered by accept() or remove().
    [[nodiscard]] Step
    next(std::uint32_t prompt_tokens_max, CacheIndex::FirstPosition const& first_position);

    // The answer to a step's output: the first `drafts_kept` drafts were right, then comes `token`.
    // REQUIRES: there is room for it in the context.
    void accept(SequenceId id, std::uint32_t drafts_kept, std::int32_t token);

    // Guesses of what comes after the tokens, for the next step; if it has no room for them, they
    // are dropped. REQUIRES: a cuttable cache; no drafts; as many as drafts_max() and the context
    // allow.
    void draft(SequenceId id, std::span<std::int32_t const> tokens);

    // For each sequence, such that all outputs are in one micro-batch.
    [[nodiscard]] std::uint32_t drafts_max() const;

    // Forgets all that is remembered. REQUIRES: idle().
    void forget();

    // What the next plan must begin with, if next() does not make it.
    [[nodiscard]] std::vector<CacheChange> take_changes() { return cache_.take_changes(); }

private:
    using SequencePtr = std::unique_ptr<Sequence>;

    [[nodiscard]] Sequence& find(SequenceId id) const;
    void admit(CacheIndex::FirstPosition const& first_position);
    [[nodiscard]] bool
    has_room_for(Sequence const& next, CacheIndex::FirstPosition const& first_position) const;
    [[nodiscard]] bool follows_another(std::size_t index, std::uint32_t reusable) const;
    void begin(CacheIndex::FirstPosition const& first_position);
    void make_step_fit();
    void drop_drafts(Sequence& sequence);
    void forget_drafts(Sequence const& sequence);
    void pause_youngest();
    [[nodiscard]] std::vector<SequenceView> views() const;
    [[nodiscard]] Step compose(std::vector<Chunk> const& chunks);

    PlanLimits limits_;
    std::uint32_t parallel_;
    CacheIndex cache_;
    SequenceId next_id_ = 0;
    std::deque<SequencePtr> waiting_;
    std::vector<SequencePtr> running_;
};

} // namespace exo::engine
