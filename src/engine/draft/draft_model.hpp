// SPDX-License-Identifier: Apache-2.0
//
// Drafts with a small model, by llama.cpp on the CPU of rank 0 alone: it has nothing to do with the
// ranks and devices of the model it drafts for. Its cache has places for a few sequences. A place
// follows the sequence in a slot: what was rejected is removed when the slot is asked again. When
// the sequence has ended, the place keeps what it has read for another one that begins so, as the
// next turn of a chat does.
#pragma once

#include "base/result.hpp"
#include "engine/draft/draft_length.hpp"
#include "engine/draft/drafter.hpp"

#include <ggml-cpu.h>
#include <llama-cpp.h>

#include <array>
#include <memory>
#include <optional>
#include <string>

namespace exo::engine {

struct DraftModelOptions {
    std::vector<std::string> paths;
    std::uint32_t context_length = 0; // Of the model it drafts for: cells for all sequences.
    std::uint32_t threads = 1;
};

// As many as draft at a time (draft_length.hpp).
constexpr std::uint32_t draft_places = drafting_sequences_most;

// Of a sequence that the draft model has not read yet, it reads so many tokens in a step: a long
// prompt must not hold up the others.
constexpr std::uint32_t draft_catch_up_most = 64;
// A guess that is less likely than this, as the draft model sees it, ends the draft: it would cost
// more than it is worth.
constexpr float draft_confidence_min = 0.4F;

class DraftModel final : public Drafter {
public:
    // `target`: the vocabulary of the model it drafts for. Errors: those of the files; unsupported,
    // with the reason, when it cannot draft for that model.
    [[nodiscard]] static Result<std::unique_ptr<DraftModel>>
    load(DraftModelOptions const& options, llama_vocab const* target);
    ~DraftModel() override;

    // The likeliest tokens, one by one, while it is sure enough. None while it catches up.
    [[nodiscard]] std::vector<std::int32_t>
    propose(std::uint32_t slot, std::span<std::int32_t const> tokens, std::uint32_t most) override;

    void forget(std::uint32_t slot) override;

private:
    struct Place {
        std::vector<std::int32_t> tokens; // In the cache.
        std::optional<std::uint32_t> slot;
        std::uint64_t used = 0; // When, in proposals.
    };

    DraftModel() = default;
    Result<void> make_context(DraftModelOptions const& options);
    Result<void> use_threads(std::uint32_t count);

    [[nodiscard]] Place& place_of(std::uint32_t slot, std::span<std::int32_t const> tokens);
    [[nodiscard]] llama_seq_id sequence_of(Place const& place) const;
    [[nodiscard]] bool can_read(std::span<std::int32_t const> tokens) const;
    void keep(Place& place, std::size_t length);
    // The last token's logits are there after it. False when it could not: then nothing is drafted.
    [[nodiscard]] bool decode(Place& place, std::span<std::int32_t const> tokens);
    [[nodiscard]] std::optional<std::int32_t> guess() const;

    llama_model_ptr model_;
    ggml_threadpool_t threads_ = nullptr; // Null: one thread needs none.
    llama_context_ptr context_;
    llama_vocab const* vocabulary_ = nullptr;
    std::int32_t words_ = 0; // That both models have.
    std::uint32_t context_length_ = 0;
    std::array<Place, draft_places> places_;
    std::uint64_t proposals_ = 0;
    bool failed_ = false;
};

} // namespace exo::engine
