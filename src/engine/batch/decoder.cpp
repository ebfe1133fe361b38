// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/decoder.hpp"

#include "base/assert.hpp"

#include <fmt/core.h>

namespace exo::engine {

Decoder::Decoder(LoadedModel& loaded, PlanLimits limits)
    : loaded_(loaded)
    , limits_(limits) {}

Result<void> Decoder::execute(StepPlan const& plan) {
    EXO_TRY(validate(plan, limits_, next_number_));
    ++next_number_;
    auto* const context = loaded_.context.get();
    auto* const memory = llama_get_memory(context);
    for (auto const& removal : plan.removals) {
        llama_memory_seq_rm(
            memory, static_cast<llama_seq_id>(removal.sequence), removal.from, removal.to
        );
    }
    if (plan.kind == StepPlan::Kind::end) {
        return {};
    }
    auto const count = static_cast<std::int32_t>(plan.tokens.size());
    auto batch = llama_batch_init(count, /*embd=*/0, /*n_seq_max=*/1);
    batch.n_tokens = count;
    for (std::size_t i = 0; i < plan.tokens.size(); ++i) {
        batch.token[i] = plan.tokens[i].token;
        batch.pos[i] = plan.tokens[i].position;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = static_cast<llama_seq_id>(plan.tokens[i].sequence);
        batch.logits[i] = plan.tokens[i].output ? 1 : 0;
    }
    int const code = llama_decode(context, batch);
    llama_synchronize(context);
    llama_batch_free(batch);
    EXO_TRY(loaded_.cluster->health());
    if (code != 0) {
        return Error(
            Errc::internal,
            fmt::format(
                "llama_decode of {} tokens in step {} gave {}: {}",
                count,
                plan.number,
                code,
                loaded_.log->take_errors()
            )
        );
    }
    return {};
}

std::span<float const> Decoder::logits(std::size_t index) const {
    auto const* values =
        llama_get_logits_ith(loaded_.context.get(), static_cast<std::int32_t>(index));
    EXO_ASSERT(values != nullptr);
    return {values, static_cast<std::size_t>(limits_.vocabulary_size)};
}

void Decoder::clear() {
    llama_memory_clear(llama_get_memory(loaded_.context.get()), true);
}

} // namespace exo::engine
