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
    for (auto const& change : plan.changes) {
        EXO_TRY(std::visit([&](auto const& each) { return change_cache(each); }, change));
    }
    if (plan.kind == StepPlan::Kind::end) {
        return {};
    }
    auto* const context = loaded_.context.get();
    int const code = llama_decode(context, fill_batch(plan.tokens));
    llama_synchronize(context);
    EXO_TRY(loaded_.cluster->health());
    if (code != 0) {
        return Error(
            Errc::internal,
            fmt::format(
                "llama_decode of {} tokens in step {} gave {}: {}",
                plan.tokens.size(),
                plan.number,
                code,
                loaded_.log->take_errors()
            )
        );
    }
    return {};
}

// llama.cpp's answers are the same on all ranks, for their caches are.
Result<void> Decoder::change_cache(CacheRemoval const& removal) {
    auto const sequence = static_cast<llama_seq_id>(removal.sequence);
    auto* const memory = llama_get_memory(loaded_.context.get());
    if (!llama_memory_seq_rm(memory, sequence, removal.from, removal.to)) {
        return Error(
            Errc::internal,
            fmt::format(
                "llama.cpp cannot remove [{}, {}) from sequence {} of this model's cache",
                removal.from,
                removal.to,
                removal.sequence
            )
        );
    }
    return {};
}

// What llama.cpp asserts (some caches only copy as a whole) or takes in silence (two cells for one
// position) is a broken plan.
Result<void> Decoder::change_cache(CacheCopy const& copy) {
    auto* const memory = llama_get_memory(loaded_.context.get());
    auto const sequence = static_cast<llama_seq_id>(copy.sequence);
    bool const occupied = llama_memory_seq_pos_max(memory, sequence) >= 0;
    if (occupied || (copy.to >= 0 && !kind_.cuttable)) {
        return Error(
            Errc::protocol,
            fmt::format(
                "step plan: copy of [0, {}) from sequence {} to {}, {}",
                copy.to,
                copy.source,
                copy.sequence,
                occupied ? "which is not empty" : "but this model's cache copies only as a whole"
            )
        );
    }
    llama_memory_seq_cp(
        memory, static_cast<llama_seq_id>(copy.source), sequence, copy.to < 0 ? -1 : 0, copy.to
    );
    return {};
}

llama_batch Decoder::fill_batch(std::vector<PlanToken> const& tokens) {
    auto const count = tokens.size();
    arrays_.tokens.resize(count);
    arrays_.positions.resize(count);
    arrays_.sequence_counts.assign(count, 1);
    arrays_.sequences.resize(count);
    arrays_.sequence_lists.resize(count);
    arrays_.outputs.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        arrays_.tokens[i] = tokens[i].token;
        arrays_.positions[i] = tokens[i].position;
        arrays_.sequences[i] = static_cast<llama_seq_id>(tokens[i].sequence);
        arrays_.sequence_lists[i] = &arrays_.sequences[i];
        arrays_.outputs[i] = tokens[i].output ? 1 : 0;
    }
    return {
        .n_tokens = static_cast<std::int32_t>(count),
        .token = arrays_.tokens.data(),
        .embd = nullptr,
        .pos = arrays_.positions.data(),
        .n_seq_id = arrays_.sequence_counts.data(),
        .seq_id = arrays_.sequence_lists.data(),
        .logits = arrays_.outputs.data(),
    };
}

std::span<float const> Decoder::logits(std::size_t index) const {
    auto const* values =
        llama_get_logits_ith(loaded_.context.get(), static_cast<std::int32_t>(index));
    EXO_ASSERT(values != nullptr);
    return {values, static_cast<std::size_t>(limits_.vocabulary_size)};
}

std::int32_t Decoder::first_position(std::uint32_t sequence) const {
    return llama_memory_seq_pos_min(
        llama_get_memory(loaded_.context.get()), static_cast<llama_seq_id>(sequence)
    );
}

// A cache that gives up the end of a sequence may be cut anywhere. Those with a recurrent part may
// give up a few last tokens, but no more; they are known by name.
void Decoder::learn_cache_kind() {
    auto const* model = loaded_.model.get();
    auto* const memory = llama_get_memory(loaded_.context.get());
    EXO_ASSERT(llama_memory_seq_pos_max(memory, 0) > 0);
    bool const recurrent = llama_model_is_recurrent(model) || llama_model_is_hybrid(model);
    kind_.cuttable = !recurrent && llama_memory_seq_rm(memory, 0, 1, -1);
    kind_.window = static_cast<std::uint32_t>(std::max(0, llama_model_n_swa(model)));
    llama_memory_clear(memory, true);
}

} // namespace exo::engine
