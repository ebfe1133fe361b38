// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"

#include "base/assert.hpp"
#include "engine/batch/decoder.hpp"
#include "engine/batch/scheduler.hpp"
#include "engine/chat/chat.hpp"
#include "engine/draft/make_drafter.hpp"
#include "engine/load/loader.hpp"
#include "engine/load/probe.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <llama.h>

#include <algorithm>
#include <chrono>
#include <common.h> // Of llama-common.

namespace exo::engine {
namespace {

// Below, the ranks of a pipeline exchange more than they compute.
constexpr std::uint32_t micro_batch_min = 16;
// Enough for the kernels of a prompt and their layout of weights, and soon done.
constexpr std::uint32_t warm_up_tokens = 64;

LoadOptions load_options(EngineOptions const& options, std::uint32_t ranks) {
    // A micro-batch holds one token of each sequence.
    auto const wish =
        options.micro_batch != 0
            ? options.micro_batch
            : std::max(micro_batch_default(options.sharding, ranks), options.settings.parallel);
    return {
        .model_paths = options.model_paths,
        .sharding = options.sharding,
        .ranks = ranks,
        .shares = options.shares,
        .context_length = options.context_length,
        .context_default_max = context_default_max,
        .micro_batch = std::clamp(wish, micro_batch_min, step_tokens_max),
        .step_tokens_max = step_tokens_max,
        .parallel = options.settings.parallel,
        .cache_type = options.settings.cache_type,
        .compute =
            {.device = options.device,
             .threads = options.threads != 0 ? options.threads : physical_cores()},
    };
}

SchedulerOptions
scheduler_options(model::InstanceSettings const& settings, PlanLimits const& limits) {
    auto const wait =
        settings.prompt_wait_ms != 0 ? settings.prompt_wait_ms : prompt_wait_ms_default;
    auto const parallel = settings.parallel != 0 ? settings.parallel : limits.sequences_max;
    return {
        .waiting_max = waiting_max,
        .parallel = std::min(parallel, limits.sequences_max),
        .prompt_wait = std::chrono::milliseconds(wait),
        .draft_tokens = settings.draft_tokens != 0 ? settings.draft_tokens : draft_tokens_default,
    };
}

// Rank 0's, if it wants one: it alone chooses tokens.
Result<std::unique_ptr<Drafter>>
drafter_for(EngineOptions const& options, Outline const& outline, collective::Group const& group) {
    if (group.rank() != 0) {
        return std::unique_ptr<Drafter>();
    }
    return make_drafter(
        {.settings = options.settings,
         .draft_paths = options.draft_paths,
         .context_length = outline.rehearsal.context_length,
         .threads = options.threads != 0 ? options.threads : physical_cores()},
        llama_model_get_vocab(outline.model.get())
    );
}

class LoadedEngine final : public Engine {
public:
    LoadedEngine(
        LoadedModel loaded,
        std::unique_ptr<Chat> chat,
        PlanLimits const& limits,
        model::InstanceSettings const& settings,
        collective::Group& group,
        std::unique_ptr<Drafter> drafter,
        EventSink on_event
    )
        : loaded_(std::move(loaded))
        , chat_(std::move(chat))
        , decoder_(loaded_, limits)
        , group_(group)
        , scheduler_(
              decoder_,
              *chat_,
              group,
              scheduler_options(settings, limits),
              std::move(drafter),
              std::move(on_event)
          ) {}

    void submit(model::GenerationRequest request) override {
        scheduler_.submit(std::move(request));
    }

    void cancel(model::TaskId const& task_id) override { scheduler_.cancel(task_id); }

    [[nodiscard]] bool idle() const override { return scheduler_.idle(); }

    Result<void> step() override { return scheduler_.step(); }

    void abandon(Error const& error) override { scheduler_.abandon(error); }

    Result<void> stop() override { return scheduler_.end(); }

    [[nodiscard]] Result<Measurement> measure(MeasureOptions const& options) override;

    Result<void> follow() override;
    Result<void> warm_up() override;

    [[nodiscard]] std::uint32_t context_length() const override {
        return decoder_.limits().context_length;
    }

private:
    [[nodiscard]] StepPlan
    arbitrary_plan(std::uint32_t first, std::uint32_t count, bool output) const;
    Result<void> measure_prompt(std::uint32_t tokens);
    Result<void> measure_answers(std::uint32_t tokens, std::uint32_t streams);

    LoadedModel loaded_; // First: the others use it.
    std::unique_ptr<Chat> chat_;
    Decoder decoder_;
    collective::Group& group_;
    Scheduler scheduler_;
};

Result<void> LoadedEngine::follow() {
    EXO_ASSERT(group_.rank() != 0);
    for (;;) {
        auto const message = group_.receive_message(0);
        if (!message) {
            return message.error();
        }
        auto const plan = decode_step_plan(*message);
        if (!plan) {
            return plan.error();
        }
        EXO_TRY(decoder_.execute(*plan));
        if (plan->kind == StepPlan::Kind::end) {
            return {};
        }
    }
}

// Arbitrary tokens of sequence 0 at positions [first, first + count).
StepPlan LoadedEngine::arbitrary_plan(std::uint32_t first, std::uint32_t count, bool output) const {
    StepPlan plan;
    plan.number = decoder_.next_number();
    for (auto i = first; i < first + count; ++i) {
        plan.tokens.push_back({
            .token = static_cast<std::int32_t>(i) % decoder_.limits().vocabulary_size,
            .position = static_cast<std::int32_t>(i),
            .output = output && i + 1 == first + count,
        });
    }
    return plan;
}

// All ranks make the same two plans by themselves.
Result<void> LoadedEngine::warm_up() {
    auto const& limits = decoder_.limits();
    auto const prompt = std::min({warm_up_tokens, limits.micro_batch, limits.context_length - 1});
    EXO_TRY(decoder_.execute(arbitrary_plan(0, prompt, true)));
    EXO_TRY(decoder_.execute(arbitrary_plan(prompt, 1, true)));
    decoder_.learn_cache_kind();
    scheduler_.warmed_up();
    return group_.barrier();
}

Result<void> LoadedEngine::measure_prompt(std::uint32_t tokens) {
    auto const most = decoder_.limits().tokens_max;
    for (std::uint32_t at = 0; at < tokens;) {
        auto const count = std::min(most, tokens - at);
        auto plan = arbitrary_plan(at, count, at + count == tokens);
        EXO_TRY(scheduler_.run(plan));
        at += count;
    }
    auto sampler = Sampler::make({.temperature = 0.0}, decoder_.limits().vocabulary_size, {}, 0);
    (void)sampler->sample(decoder_.logits((tokens - 1) % most));
    return {};
}

// Each step has a token of each stream, as in a batch of requests.
Result<void> LoadedEngine::measure_answers(std::uint32_t tokens, std::uint32_t streams) {
    auto sampler = Sampler::make({.temperature = 0.0}, decoder_.limits().vocabulary_size, {}, 0);
    StepPlan plan;
    for (std::uint32_t stream = 0; stream < streams; ++stream) {
        plan.tokens.push_back({
            .token = static_cast<std::int32_t>(stream) % decoder_.limits().vocabulary_size,
            .sequence = stream,
            .output = true,
        });
    }
    for (std::uint32_t i = 0; i < tokens; ++i) {
        EXO_TRY(scheduler_.run(plan));
        for (std::uint32_t stream = 0; stream < streams; ++stream) {
            plan.tokens[stream].token = sampler->sample(decoder_.logits(stream));
            ++plan.tokens[stream].position;
        }
        plan.changes.clear();
    }
    return {};
}

Result<Measurement> LoadedEngine::measure(MeasureOptions const& options) {
    using Clock = std::chrono::steady_clock;
    auto const& limits = decoder_.limits();
    EXO_ASSERT(idle() && options.prompt_tokens > 0);
    EXO_ASSERT(options.answer_tokens > 0 && options.streams > 0);
    auto const answers = std::uint64_t{options.answer_tokens} * options.streams;
    if (options.prompt_tokens > limits.context_length || answers > limits.context_length ||
        options.streams > limits.sequences_max) {
        return Error(
            Errc::invalid_argument,
            fmt::format(
                "a prompt of {} tokens and {} answers of {}: there is room for {} tokens, and "
                "for {} answers at a time",
                options.prompt_tokens,
                options.streams,
                options.answer_tokens,
                limits.context_length,
                limits.sequences_max
            )
        );
    }
    auto const start = Clock::now();
    scheduler_.forget();
    EXO_TRY(measure_prompt(options.prompt_tokens));
    auto const prefilled = Clock::now();
    scheduler_.forget();
    EXO_TRY(measure_answers(options.answer_tokens, options.streams));
    auto const end = Clock::now();
    scheduler_.forget();
    auto const seconds = [](auto time) { return std::chrono::duration<double>(time).count(); };
    return Measurement{
        .prefill_tokens_per_second = options.prompt_tokens / seconds(prefilled - start),
        .decode_tokens_per_second = static_cast<double>(answers) / seconds(end - prefilled),
    };
}

} // namespace

void set_abort_handler(AbortHandler handler) {
    ggml_set_abort_callback(handler);
}

std::uint32_t physical_cores() {
    return static_cast<std::uint32_t>(std::max(1, common_cpu_get_num_physical_cores()));
}

Result<Program> describe_program(EngineOptions const& options) {
    LogCapture const log;
    auto const files = ModelFiles::open(options.model_paths);
    if (!files) {
        return files.error();
    }
    auto const headers = (*files)->headers();
    if (!headers) {
        return headers.error();
    }
    Program program;
    program.words = fmt::format(
        "exo {}, llama.cpp {}, ggml {}, patches {}, {} of {} layers, {}, shares [{}], context {}, "
        "micro-batch {}, cache {}, parallel {}",
        EXO_VERSION,
        llama_version(),
        ggml_version(),
        EXO_PATCHES_HASH,
        (*files)->architecture(),
        (*files)->layer_count(),
        options.sharding == model::Sharding::pipeline ? "pipeline" : "tensor",
        fmt::join(options.shares, ", "),
        options.context_length,
        options.micro_batch,
        options.settings.cache_type == model::CacheType::q8_0 ? "q8_0" : "f16",
        options.settings.parallel
    );
    append(program.identity, as_bytes(program.words));
    append(program.identity, *headers);
    return program;
}

Result<std::unique_ptr<Engine>> load_engine(
    EngineOptions const& options,
    collective::Group& group,
    std::function<void(LoadProgress)> const& on_progress,
    EventSink on_event
) {
    auto const resolved = load_options(options, group.size());
    auto outline = outline_model(resolved, &group);
    if (!outline) {
        return outline.error();
    }
    // Before the weights: a draft model that does not fit is no reason to read them.
    auto drafter = drafter_for(options, *outline, group);
    if (!drafter) {
        return drafter.error();
    }
    auto const total = outline->files->layer_count();
    on_progress({0, total});
    auto loaded = finish_model(std::move(*outline), group, [&](std::uint32_t layers) {
        on_progress({layers, total});
    });
    if (!loaded) {
        return loaded.error();
    }
    auto chat = Chat::make(loaded->model.get());
    if (!chat) {
        return chat.error();
    }
    PlanLimits const limits{
        .tokens_max = llama_n_batch(loaded->context.get()),
        .micro_batch = llama_n_ubatch(loaded->context.get()),
        .sequences_max = llama_n_seq_max(loaded->context.get()),
        .vocabulary_size = llama_vocab_n_tokens(llama_model_get_vocab(loaded->model.get())),
        .context_length = llama_n_ctx(loaded->context.get()),
    };
    return std::make_unique<LoadedEngine>(
        std::move(*loaded),
        std::move(*chat),
        limits,
        options.settings,
        group,
        std::move(*drafter),
        std::move(on_event)
    );
}

Result<std::string> probe(EngineOptions const& options, std::uint32_t ranks, bool with_ranges) {
    auto const report = probe_model(load_options(options, ranks));
    if (!report) {
        return report.error();
    }
    return to_json(*report, with_ranges);
}

} // namespace exo::engine
