// SPDX-License-Identifier: Apache-2.0
//
// The choice of the next token of one sequence, by llama.cpp's samplers on the CPU. Rank 0 only.
#pragma once

#include "base/result.hpp"
#include "model/generation.hpp"

#include <llama-cpp.h>

#include <cstdint>
#include <span>
#include <vector>

namespace exo::engine {

// What a request does not say and the model's card neither (specs/exo-behaviour.md 8.9).
struct SamplingDefaults {
    double temperature = 0.7;
    double top_p = 1.0;
    std::int32_t top_k = 0; // All.
    double min_p = 0.05;
    double repetition_penalty = 1.0; // None.
    double presence_penalty = 0.0;
    double frequency_penalty = 0.0;
};

// Tokens that the repetition penalty looks back at, prompt and answer.
constexpr std::int32_t repetition_tokens = 20;

class Sampler {
public:
    // `seed_drawn` is used when the request has no seed. Error: invalid_argument, naming the value
    // that is out of range.
    [[nodiscard]] static Result<Sampler> make(
        model::Sampling const& sampling,
        std::int32_t vocabulary_size,
        std::span<std::int32_t const> prompt,
        std::uint32_t seed_drawn
    );

    // Chooses from logits by token, and remembers the choice.
    [[nodiscard]] std::int32_t sample(std::span<float const> logits);

private:
    Sampler() = default;

    llama_sampler_ptr repetition_; // Null: none. It counts prompt tokens too, the others do not.
    llama_sampler_ptr chain_;
    bool plain_greedy_ = false; // Nothing but the greatest: needs no list of candidates.
    std::vector<llama_token_data> candidates_;
};

} // namespace exo::engine
