// SPDX-License-Identifier: Apache-2.0
//
// Rank 0's view of the batch: requests wait, are admitted when there is a place, share each step
// with the others (continuous batching), and leave with a terminal event. Each step is one plan
// that all ranks execute.
//
// Invariants: a running sequence has its slot to itself; cached < tokens.size(); an evicted one
// waits at the front, with what it has generated so far, and loses nothing but time.
#pragma once

#include "base/result.hpp"
#include "base/time.hpp"
#include "collective/group.hpp"
#include "engine/batch/decoder.hpp"
#include "engine/batch/planner.hpp"
#include "engine/chat/answer_text.hpp"
#include "engine/chat/chat.hpp"
#include "engine/sampler/sampler.hpp"
#include "model/generation.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace exo::engine {

class Scheduler {
public:
    using EventSink = std::function<void(model::TaskId const&, model::GenerationEvent)>;

    // `waiting_max`: requests beyond it are refused. The references must outlive the object.
    Scheduler(
        Decoder& decoder,
        Chat const& chat,
        collective::Group& group,
        std::size_t waiting_max,
        EventSink on_event
    );

    void submit(model::GenerationRequest request);
    void cancel(model::TaskId const& task_id);

    [[nodiscard]] bool idle() const { return waiting_.empty() && running_.empty(); }

    // REQUIRES: not idle().
    Result<void> step();

    void abandon(Error const& error);

    // The others return from following.
    Result<void> end();

    // For measurements, while idle: all ranks execute the plan; and with the next plan a sequence
    // leaves the cache.
    Result<void> run(StepPlan const& plan);

    void forget(std::uint32_t sequence) { removals_.push_back({.sequence = sequence}); }

private:
    struct Sequence {
        model::TaskId task_id;
        std::vector<std::int32_t> tokens; // Prompt, then what was generated.
        std::uint32_t prompt_count = 0;
        std::uint32_t answer_max = 0;
        Sampler sampler;
        AnswerText text;

        std::uint32_t slot = 0;   // llama.cpp's sequence id, while running.
        std::uint32_t cached = 0; // Tokens in the cache.
        std::uint64_t deltas = 0;
        std::uint32_t tokens_unsaid = 0; // Since the last delta.
        TimePoint started{};
        TimePoint first_token{};

        [[nodiscard]] std::uint32_t answer_count() const {
            return static_cast<std::uint32_t>(tokens.size()) - prompt_count;
        }
    };

    using SequencePtr = std::unique_ptr<Sequence>;

    [[nodiscard]] Result<SequencePtr> prepare(model::GenerationRequest const& request) const;
    void admit();
    void evict(std::vector<std::size_t> const& indices);
    void free_slot(Sequence const& sequence);
    [[nodiscard]] StepPlan make_plan(std::vector<Chunk> const& chunks);

    void take_outputs(std::vector<Chunk> const& chunks, std::size_t plan_tokens);
    void report_prefill(Sequence const& sequence);
    // Returns true when the sequence has ended.
    bool take_token(Sequence& sequence, std::int32_t token);
    void say(Sequence& sequence, std::string text);
    void finish(Sequence& sequence, model::FinishReason reason);

    Decoder& decoder_;
    Chat const& chat_;
    collective::Group& group_;
    std::size_t waiting_max_;
    EventSink on_event_;

    std::deque<SequencePtr> waiting_;
    std::vector<SequencePtr> running_;   // From the oldest to the youngest.
    std::vector<std::uint32_t> slots_;   // Free ones.
    std::vector<CacheRemoval> removals_; // For the next plan.
};

} // namespace exo::engine
