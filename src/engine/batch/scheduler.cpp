// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/scheduler.hpp"

#include "base/assert.hpp"
#include "base/entropy.hpp"
#include "base/log.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace exo::engine {
namespace {

// As the APIs call it (model/generation.hpp); no Errc, for only a caller of those can mend it.
constexpr char const* context_length_exceeded = "context_length_exceeded";

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
    SchedulerOptions options,
    std::unique_ptr<Drafter> drafter,
    EventSink on_event
)
    : decoder_(decoder)
    , chat_(chat)
    , group_(group)
    , options_(options)
    , on_event_(std::move(on_event))
    , drafter_(std::move(drafter))
    , batch_(decoder.limits(), options.parallel) {}

void Scheduler::warmed_up() {
    batch_.set_kind(decoder_.cache_kind());
    if (drafter_ && !batch_.kind().cuttable) {
        log::warning(
            "engine",
            "no speculative decoding: the memory of this model cannot take back rejected tokens"
        );
        drafter_.reset();
    }
}

void Scheduler::submit(model::GenerationRequest request) {
    if (batch_.waiting() >= options_.waiting_max) {
        fail(
            request.task_id,
            to_string(Errc::unavailable),
            fmt::format("{} requests wait already", batch_.waiting())
        );
        return;
    }
    auto prepared = prepare(request);
    if (!prepared) {
        auto const& error = prepared.error();
        auto const code =
            error.code() == Errc::limit ? context_length_exceeded : to_string(error.code());
        fail(request.task_id, code, error.text());
        return;
    }
    if (prepared->request.answer_max == 0) {
        finish(prepared->request, model::FinishReason::length);
        return;
    }
    auto const id = batch_.add(std::move(prepared->prompt));
    requests_.emplace(id, std::move(prepared->request));
}

// Error limit: longer than the context.
Result<Scheduler::Prepared> Scheduler::prepare(model::GenerationRequest const& request) const {
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
            Errc::limit,
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
    return Prepared{
        .request =
            {.task_id = request.task_id,
             .prompt_count = count,
             .answer_max = std::min(request.max_tokens.value_or(room), room),
             .sampler = std::move(*sampler),
             .text = AnswerText(std::move(stops)),
             .draft_length = DraftLength(options_.draft_tokens)},
        .prompt = std::move(prompt->tokens),
    };
}

void Scheduler::cancel(model::TaskId const& task_id) {
    auto const found = std::ranges::find_if(requests_, [&](auto const& entry) {
        return entry.second.task_id == task_id;
    });
    if (found != requests_.end()) {
        remove(found->first);
    }
}

void Scheduler::abandon(Error const& error) {
    while (!requests_.empty()) {
        auto const first = requests_.begin();
        auto const task_id = first->second.task_id;
        remove(first->first);
        fail(task_id, to_string(error.code()), error.text());
    }
}

void Scheduler::remove(SequenceId id) {
    if (auto const slot = batch_.sequence(id).slot; slot && drafter_) {
        drafter_->forget(*slot);
    }
    batch_.remove(id);
    requests_.erase(id);
}

Result<void> Scheduler::step() {
    if (drafter_) {
        draft();
    }
    auto const prompt_tokens = cost_.prompt_tokens_within(options_.prompt_wait);
    auto step = batch_.next(prompt_tokens, [&](std::uint32_t slot) {
        return decoder_.first_position(slot);
    });
    auto const start = now();
    note_start(step);
    EXO_TRY(run(step.plan));
    report_prefill(step);
    take_outputs(step);
    if (step.prompt_tokens < step.plan.tokens.size()) { // Somebody had to wait for the prompts.
        cost_.note(step.prompt_tokens, now() - start);
    }
    return {};
}

// Guesses for the sequences that generate, each step's share as long as there are few of them.
void Scheduler::draft() {
    auto const generates = [&](auto const& entry) {
        auto const& sequence = batch_.sequence(entry.first);
        return sequence.slot && !sequence.prefills();
    };
    auto const generating = std::ranges::count_if(requests_, generates);
    auto const most =
        std::min(drafts_for_each(static_cast<std::uint32_t>(generating)), batch_.drafts_max());
    for (auto& entry : requests_) {
        if (!generates(entry)) {
            continue;
        }
        auto& [id, request] = entry;
        auto const& sequence = batch_.sequence(id);
        auto const wanted = drafts_wanted(request, sequence, most);
        if (wanted == 0) {
            request.draft_length.pass();
            continue;
        }
        batch_.draft(id, drafter_->propose(*sequence.slot, sequence.tokens, wanted));
    }
}

// No more than can become part of the answer, one token besides them.
std::uint32_t Scheduler::drafts_wanted(
    Request const& request, Sequence const& sequence, std::uint32_t most
) const {
    auto const answer = request.answer_max - request.answer_count - 1;
    auto const context =
        decoder_.limits().context_length - static_cast<std::uint32_t>(sequence.tokens.size());
    return std::min({most, request.draft_length.next(), answer, context});
}

void Scheduler::note_start(Step const& step) {
    for (auto const id : step.sequences) {
        auto& request = requests_.at(id);
        if (request.started == TimePoint{}) {
            request.started = now();
            request.reused = batch_.sequence(id).reused;
        }
    }
}

void Scheduler::report_prefill(Step const& step) {
    for (auto const id : step.sequences) {
        auto const& request = requests_.at(id);
        if (request.answer_count == 0) { // Not when a paused one begins anew.
            on_event_(
                request.task_id,
                model::PrefillProgress{batch_.sequence(id).cached, request.prompt_count}
            );
        }
    }
}

void Scheduler::take_outputs(Step const& step) {
    for (auto const& output : step.outputs) {
        auto const verdict = check_drafts(requests_.at(output.sequence), output);
        if (verdict.next) {
            batch_.accept(output.sequence, verdict.kept, *verdict.next);
        } else {
            remove(output.sequence);
        }
    }
}

Verdict Scheduler::check_drafts(Request& request, StepOutput const& output) {
    auto const count = output.count - 1;
    auto const drafts = std::span(batch_.sequence(output.sequence).tokens).last(count);
    request.drafted += count;
    auto const verdict = verify(
        drafts,
        [&](std::uint32_t i) {
            request.accepted += i > 0 ? 1 : 0; // The draft before was right.
            return request.sampler.sample(decoder_.logits(output.first + i));
        },
        [&](std::int32_t token) { return take_token(request, token); }
    );
    if (count > 0) {
        request.draft_length.note(count, verdict.kept);
    }
    return verdict;
}

Result<void> Scheduler::run(StepPlan& plan) {
    plan.number = decoder_.next_number();
    auto const late = batch_.take_changes(); // None, if the batch made the plan.
    plan.changes.insert(plan.changes.end(), late.begin(), late.end());
    if (group_.size() > 1) {
        auto const bytes = encode(plan);
        for (std::uint32_t rank = 1; rank < group_.size(); ++rank) {
            EXO_TRY(group_.send(rank, bytes));
        }
    }
    return decoder_.execute(plan);
}

Result<void> Scheduler::end() {
    StepPlan plan{.kind = StepPlan::Kind::end};
    return run(plan);
}

bool Scheduler::take_token(Request& request, std::int32_t token) {
    if (request.answer_count == 0) {
        request.first_token = now();
    }
    if (chat_.ends_answer(token)) {
        say(request, request.text.flush());
        finish(request, model::FinishReason::stop);
        return true;
    }
    ++request.answer_count;
    ++request.tokens_unsaid;
    auto shown = request.text.push(chat_.piece(token));
    say(request, std::move(shown.text));
    if (shown.stopped) {
        finish(request, model::FinishReason::stop);
        return true;
    }
    if (request.answer_count >= request.answer_max) {
        say(request, request.text.flush());
        finish(request, model::FinishReason::length);
        return true;
    }
    return false;
}

void Scheduler::say(Request& request, std::string text) {
    if (text.empty()) {
        return;
    }
    on_event_(
        request.task_id,
        model::TokenDelta{
            .number = request.deltas++,
            .text = std::move(text),
            .token_count = std::exchange(request.tokens_unsaid, 0),
        }
    );
}

void Scheduler::finish(Request& request, model::FinishReason reason) {
    auto const answer = request.answer_count;
    model::GenerationFinished finished{
        .finish_reason = reason,
        .usage =
            {.prompt_tokens = request.prompt_count,
             .completion_tokens = answer,
             .cached_tokens = request.reused},
    };
    if (request.first_token != TimePoint{}) {
        finished.stats.prompt_tokens_per_second = per_second(
            request.prompt_count - request.reused, request.first_token - request.started
        );
        // The first token comes with the prompt.
        finished.stats.generation_tokens_per_second =
            per_second(answer > 0 ? answer - 1 : 0, now() - request.first_token);
    }
    if (drafter_) {
        finished.stats.drafted_tokens = request.drafted;
        finished.stats.accepted_tokens = request.accepted;
    }
    on_event_(request.task_id, finished);
}

void Scheduler::fail(model::TaskId const& task_id, std::string code, std::string text) {
    on_event_(task_id, model::GenerationFailed{std::move(code), std::move(text)});
}

} // namespace exo::engine
