// SPDX-License-Identifier: Apache-2.0
//
// Rank 0's view of the engine: requests become sequences of the batch, tokens become text, and each
// request ends with one terminal event. Each step is one plan that all ranks execute.
#pragma once

#include "base/result.hpp"
#include "base/time.hpp"
#include "collective/group.hpp"
#include "engine/batch/batch.hpp"
#include "engine/batch/decoder.hpp"
#include "engine/batch/step_cost.hpp"
#include "engine/chat/answer_text.hpp"
#include "engine/chat/chat.hpp"
#include "engine/draft/draft_length.hpp"
#include "engine/draft/drafter.hpp"
#include "engine/draft/verify.hpp"
#include "engine/sampler/sampler.hpp"
#include "model/generation.hpp"

#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace exo::engine {

struct SchedulerOptions {
    std::size_t waiting_max = 0;    // Requests beyond it are refused.
    std::uint32_t parallel = 1;     // Sequences that run at a time.
    Duration prompt_wait{};         // That a prompt may add to a step in which others generate.
    std::uint32_t draft_tokens = 1; // In a step, for each sequence, at most.
};

class Scheduler {
public:
    using EventSink = std::function<void(model::TaskId const&, model::GenerationEvent)>;

    // The references must outlive the object. `drafter`: null for none.
    Scheduler(
        Decoder& decoder,
        Chat const& chat,
        collective::Group& group,
        SchedulerOptions options,
        std::unique_ptr<Drafter> drafter,
        EventSink on_event
    );

    // After the decoder has learned its kind of cache, before the first request.
    void warmed_up();

    void submit(model::GenerationRequest request);
    void cancel(model::TaskId const& task_id);

    [[nodiscard]] bool idle() const { return batch_.idle(); }

    // REQUIRES: not idle().
    Result<void> step();

    void abandon(Error const& error);

    // The others return from following.
    Result<void> end();

    // For measurements, while idle: all ranks execute the plan, from an empty cache after forget().
    Result<void> run(StepPlan& plan);

    void forget() { batch_.forget(); }

private:
    struct Request {
        model::TaskId task_id;
        std::uint32_t prompt_count = 0;
        std::uint32_t answer_count = 0;
        std::uint32_t answer_max = 0;
        Sampler sampler;
        AnswerText text;
        DraftLength draft_length;

        std::uint64_t deltas = 0;
        std::uint32_t tokens_unsaid = 0; // Since the last delta.
        TimePoint started{};
        TimePoint first_token{};
        std::uint32_t reused = 0; // Tokens of the prompt that were in the cache.
        std::uint32_t drafted = 0;
        std::uint32_t accepted = 0; // Of the drafted ones.
    };

    struct Prepared {
        Request request;
        std::vector<std::int32_t> prompt;
    };

    [[nodiscard]] Result<Prepared> prepare(model::GenerationRequest const& request) const;

    void draft();
    [[nodiscard]] std::uint32_t
    drafts_wanted(Request const& request, Sequence const& sequence, std::uint32_t most) const;
    void note_start(Step const& step);
    void report_prefill(Step const& step);
    void take_outputs(Step const& step);
    [[nodiscard]] Verdict check_drafts(Request& request, StepOutput const& output);
    void remove(SequenceId id);
    // Returns true when the answer has ended.
    bool take_token(Request& request, std::int32_t token);
    void say(Request& request, std::string text);
    void finish(Request& request, model::FinishReason reason);
    void fail(model::TaskId const& task_id, std::string code, std::string text);

    Decoder& decoder_;
    Chat const& chat_;
    collective::Group& group_;
    SchedulerOptions options_;
    EventSink on_event_;
    std::unique_ptr<Drafter> drafter_;

    Batch batch_;
    StepCost cost_;
    std::map<SequenceId, Request> requests_; // Of all sequences in the batch.
};

} // namespace exo::engine
