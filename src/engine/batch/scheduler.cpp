// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/scheduler.hpp"

#include "base/assert.hpp"
#include "base/entropy.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace exo::engine {
namespace {

TimePoint now() {
    return std::chrono::time_point_cast<Duration>(std::chrono::steady_clock::now());
}

double per_second(std::uint32_t count, Duration time) {
    auto const seconds = std::chrono::duration<double>(time).count();
    return seconds > 0 ? count / seconds : 0;
}

} // namespace

Scheduler::Scheduler(
    Decoder& decoder,
    Chat const& chat,
    collective::Group& group,
    std::size_t waiting_max,
    EventSink on_event
)
    : decoder_(decoder)
    , chat_(chat)
    , group_(group)
    , waiting_max_(waiting_max)
    , on_event_(std::move(on_event)) {
    for (std::uint32_t i = decoder.limits().sequences_max; i > 0; --i) {
        slots_.push_back(i - 1);
    }
}

void Scheduler::submit(model::GenerationRequest request) {
    auto refuse = [&](Error const& error) {
        on_event_(request.task_id, model::GenerationFailed{to_string(error.code()), error.text()});
    };
    if (waiting_.size() >= waiting_max_) {
        refuse({Errc::unavailable, fmt::format("{} requests wait already", waiting_.size())});
        return;
    }
    auto sequence = prepare(request);
    if (!sequence) {
        refuse(sequence.error());
        return;
    }
    waiting_.push_back(std::move(*sequence));
}

Result<Scheduler::SequencePtr> Scheduler::prepare(model::GenerationRequest const& request) const {
    auto prompt = chat_.render(request.messages);
    if (!prompt) {
        return prompt.error();
    }
    auto const& limits = decoder_.limits();
    auto const count = static_cast<std::uint32_t>(prompt->tokens.size());
    if (count == 0) {
        return Error(Errc::invalid_argument, "the prompt has no tokens");
    }
    if (count > limits.context_length) {
        return Error(
            Errc::invalid_argument,
            fmt::format(
                "the prompt has {} tokens, and the context of this instance holds {}",
                count,
                limits.context_length
            )
        );
    }
    auto sampler = Sampler::make(
        request.sampling,
        limits.vocabulary_size,
        prompt->tokens,
        static_cast<std::uint32_t>(random_u64())
    );
    if (!sampler) {
        return sampler.error();
    }
    auto stops = request.stop;
    stops.insert(stops.end(), prompt->stops.begin(), prompt->stops.end());
    // One token more than there is room for: the last one needs no cell.
    auto const room = limits.context_length - count + 1;
    return std::make_unique<Sequence>(Sequence{
        .task_id = request.task_id,
        .tokens = std::move(prompt->tokens),
        .prompt_count = count,
        .answer_max = std::min(request.max_tokens.value_or(room), room),
        .sampler = std::move(*sampler),
        .text = AnswerText(std::move(stops)),
    });
}

void Scheduler::cancel(model::TaskId const& task_id) {
    auto const is_it = [&](SequencePtr const& sequence) { return sequence->task_id == task_id; };
    std::erase_if(waiting_, is_it);
    if (auto found = std::ranges::find_if(running_, is_it); found != running_.end()) {
        free_slot(**found);
        running_.erase(found);
    }
}

void Scheduler::abandon(Error const& error) {
    for (auto& sequence : std::exchange(running_, {})) {
        free_slot(*sequence);
        on_event_(
            sequence->task_id, model::GenerationFailed{to_string(error.code()), error.text()}
        );
    }
    for (auto& sequence : std::exchange(waiting_, {})) {
        on_event_(
            sequence->task_id, model::GenerationFailed{to_string(error.code()), error.text()}
        );
    }
}

void Scheduler::free_slot(Sequence const& sequence) {
    removals_.push_back({.sequence = sequence.slot});
    slots_.push_back(sequence.slot);
}

// In order of arrival, as far as slots and cells go: what is known of all running sequences and the
// new one must fit. What they will still generate is not counted; if it does not fit, the youngest
// is evicted.
void Scheduler::admit() {
    auto cells = std::accumulate(
        running_.begin(),
        running_.end(),
        std::size_t{0},
        [](std::size_t sum, auto const& sequence) { return sum + sequence->tokens.size(); }
    );
    while (!waiting_.empty() && !slots_.empty()) {
        auto& next = waiting_.front();
        if (next->answer_max == 0) {
            finish(*next, model::FinishReason::length);
            waiting_.pop_front();
            continue;
        }
        cells += next->tokens.size();
        if (!running_.empty() && cells > decoder_.limits().context_length) {
            return;
        }
        next->slot = slots_.back();
        slots_.pop_back();
        if (next->started == TimePoint{}) {
            next->started = now();
        }
        running_.push_back(std::move(next));
        waiting_.pop_front();
    }
}

void Scheduler::evict(std::vector<std::size_t> const& indices) {
    for (auto const index : indices) { // The youngest first, so that the order is kept.
        auto& sequence = running_[index];
        free_slot(*sequence);
        sequence->cached = 0;
        waiting_.push_front(std::move(sequence));
        running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(index));
    }
}

Result<void> Scheduler::step() {
    EXO_ASSERT(!idle());
    admit();
    if (running_.empty()) {
        return {}; // All that waited wanted no token.
    }
    std::vector<SequenceView> views;
    for (auto const& sequence : running_) {
        views.push_back({sequence->cached, static_cast<std::uint32_t>(sequence->tokens.size())});
    }
    auto const& limits = decoder_.limits();
    auto const choice = choose(
        views,
        {.step_tokens_max = limits.tokens_max,
         .micro_batch = limits.micro_batch,
         .cells = limits.context_length}
    );
    evict(choice.evicted);
    auto const plan = make_plan(choice.chunks);
    EXO_TRY(run(plan));
    take_outputs(choice.chunks, plan.tokens.size());
    return {};
}

// The outputs are the last tokens of the plan, in the order of the chunks.
void Scheduler::take_outputs(std::vector<Chunk> const& chunks, std::size_t plan_tokens) {
    std::vector<Sequence*> outputs;
    for (auto const& chunk : chunks) {
        auto& sequence = *running_[chunk.index];
        sequence.cached += chunk.count;
        if (sequence.cached == sequence.tokens.size()) {
            outputs.push_back(&sequence);
        }
        if (sequence.answer_count() == 0) { // Not when an evicted one begins anew.
            report_prefill(sequence);
        }
    }
    auto index = plan_tokens - outputs.size();
    std::vector<Sequence*> ended;
    for (auto* const sequence : outputs) {
        auto const token = sequence->sampler.sample(decoder_.logits(index++));
        if (take_token(*sequence, token)) {
            ended.push_back(sequence);
        }
    }
    std::erase_if(running_, [&](SequencePtr const& sequence) {
        bool const gone = std::ranges::find(ended, sequence.get()) != ended.end();
        if (gone) {
            free_slot(*sequence);
        }
        return gone;
    });
}

// First all tokens without an output, then the last ones of complete sequences: so all outputs are
// in the last micro-batch, in the order of the chunks.
StepPlan Scheduler::make_plan(std::vector<Chunk> const& chunks) {
    StepPlan plan;
    plan.number = decoder_.next_number();
    plan.removals = std::exchange(removals_, {});
    std::vector<PlanToken> outputs;
    for (auto const& chunk : chunks) {
        auto const& sequence = *running_[chunk.index];
        for (auto i = sequence.cached; i < sequence.cached + chunk.count; ++i) {
            bool const output = i + 1 == sequence.tokens.size();
            auto& list = output ? outputs : plan.tokens;
            list.push_back({
                .token = sequence.tokens[i],
                .position = static_cast<std::int32_t>(i),
                .sequence = sequence.slot,
                .output = output,
            });
        }
    }
    plan.tokens.insert(plan.tokens.end(), outputs.begin(), outputs.end());
    return plan;
}

Result<void> Scheduler::run(StepPlan const& plan) {
    if (group_.size() > 1) {
        auto const bytes = encode(plan);
        for (std::uint32_t rank = 1; rank < group_.size(); ++rank) {
            EXO_TRY(group_.send(rank, bytes));
        }
    }
    return decoder_.execute(plan);
}

Result<void> Scheduler::end() {
    StepPlan plan;
    plan.kind = StepPlan::Kind::end;
    plan.number = decoder_.next_number();
    return run(plan);
}

void Scheduler::report_prefill(Sequence const& sequence) {
    on_event_(sequence.task_id, model::PrefillProgress{sequence.cached, sequence.prompt_count});
}

bool Scheduler::take_token(Sequence& sequence, std::int32_t token) {
    if (sequence.answer_count() == 0) {
        sequence.first_token = now();
    }
    if (chat_.ends_answer(token)) {
        say(sequence, sequence.text.flush());
        finish(sequence, model::FinishReason::stop);
        return true;
    }
    sequence.tokens.push_back(token);
    ++sequence.tokens_unsaid;
    auto shown = sequence.text.push(chat_.piece(token));
    say(sequence, std::move(shown.text));
    if (shown.stopped) {
        finish(sequence, model::FinishReason::stop);
        return true;
    }
    if (sequence.answer_count() >= sequence.answer_max) {
        say(sequence, sequence.text.flush());
        finish(sequence, model::FinishReason::length);
        return true;
    }
    return false;
}

void Scheduler::say(Sequence& sequence, std::string text) {
    if (text.empty()) {
        return;
    }
    on_event_(
        sequence.task_id,
        model::TokenDelta{
            .number = sequence.deltas++,
            .text = std::move(text),
            .token_count = std::exchange(sequence.tokens_unsaid, 0),
        }
    );
}

void Scheduler::finish(Sequence& sequence, model::FinishReason reason) {
    auto const answer = sequence.answer_count();
    model::GenerationFinished finished{
        .finish_reason = reason,
        .usage = {.prompt_tokens = sequence.prompt_count, .completion_tokens = answer},
    };
    if (sequence.first_token != TimePoint{}) {
        finished.stats.prompt_tokens_per_second =
            per_second(sequence.prompt_count, sequence.first_token - sequence.started);
        // The first token comes with the prompt.
        finished.stats.generation_tokens_per_second =
            per_second(answer > 0 ? answer - 1 : 0, now() - sequence.first_token);
    }
    on_event_(sequence.task_id, finished);
}

} // namespace exo::engine
