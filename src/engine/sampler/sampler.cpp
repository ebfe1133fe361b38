// SPDX-License-Identifier: Apache-2.0
#include "engine/sampler/sampler.hpp"

#include "base/assert.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace exo::engine {
namespace {

// Presence and frequency are counted over the whole answer; llama.cpp wants a number
// of tokens, for which it has a ring.
constexpr std::int32_t whole_answer = 1 << 16;

Result<float>
number(char const* name, std::optional<double> wish, double otherwise, double least, double most) {
    auto const value = wish.value_or(otherwise);
    if (!std::isfinite(value) || value < least || value > most) {
        return Error(
            Errc::invalid_argument,
            fmt::format("{} must be from {} to {}, and is {}", name, least, most, value)
        );
    }
    return static_cast<float>(value);
}

} // namespace

Result<Sampler> Sampler::make(
    model::Sampling const& sampling,
    std::int32_t vocabulary_size,
    std::span<std::int32_t const> prompt,
    std::uint32_t seed_drawn
) {
    SamplingDefaults const defaults;
    auto const temperature =
        number("temperature", sampling.temperature, defaults.temperature, 0, 100);
    auto const top_p = number("top_p", sampling.top_p, defaults.top_p, 0, 1);
    auto const min_p = number("min_p", sampling.min_p, defaults.min_p, 0, 1);
    auto const repetition = number(
        "repetition_penalty", sampling.repetition_penalty, defaults.repetition_penalty, 0.01, 100
    );
    auto const presence =
        number("presence_penalty", sampling.presence_penalty, defaults.presence_penalty, -100, 100);
    auto const frequency = number(
        "frequency_penalty", sampling.frequency_penalty, defaults.frequency_penalty, -100, 100
    );
    for (auto const* value : {&temperature, &top_p, &min_p, &repetition, &presence, &frequency}) {
        if (!*value) {
            return value->error();
        }
    }
    Sampler made;
    if (*repetition != 1.0F) {
        made.repetition_.reset(
            llama_sampler_init_penalties(vocabulary_size, repetition_tokens, *repetition, 0, 0)
        );
        auto const recent = std::min<std::size_t>(prompt.size(), repetition_tokens);
        for (auto const token : prompt.last(recent)) {
            llama_sampler_accept(made.repetition_.get(), token);
        }
    }
    made.chain_.reset(llama_sampler_chain_init(llama_sampler_chain_default_params()));
    auto* const chain = made.chain_.get();
    if (*presence != 0.0F || *frequency != 0.0F) {
        llama_sampler_chain_add(
            chain,
            llama_sampler_init_penalties(vocabulary_size, whole_answer, 1, *frequency, *presence)
        );
    }
    if (*temperature == 0.0F) {
        made.plain_greedy_ = !made.repetition_ && llama_sampler_chain_n(chain) == 0;
        llama_sampler_chain_add(chain, llama_sampler_init_greedy());
        return made;
    }
    if (auto const top_k = sampling.top_k.value_or(defaults.top_k); top_k > 0) {
        llama_sampler_chain_add(chain, llama_sampler_init_top_k(top_k));
    }
    if (*top_p < 1.0F) {
        llama_sampler_chain_add(chain, llama_sampler_init_top_p(*top_p, 1));
    }
    if (*min_p > 0.0F) {
        llama_sampler_chain_add(chain, llama_sampler_init_min_p(*min_p, 1));
    }
    llama_sampler_chain_add(chain, llama_sampler_init_temp(*temperature));
    llama_sampler_chain_add(chain, llama_sampler_init_dist(sampling.seed.value_or(seed_drawn)));
    return made;
}

std::int32_t Sampler::sample(std::span<float const> logits) {
    EXO_ASSERT(!logits.empty());
    if (plain_greedy_) {
        return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
    }
    candidates_.resize(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) {
        candidates_[i] = {static_cast<llama_token>(i), logits[i], 0.0F};
    }
    llama_token_data_array array{candidates_.data(), candidates_.size(), /*selected=*/-1, false};
    if (repetition_) {
        llama_sampler_apply(repetition_.get(), &array);
    }
    llama_sampler_apply(chain_.get(), &array);
    EXO_ASSERT(array.selected >= 0);
    auto const token = array.data[array.selected].id;
    if (repetition_) {
        llama_sampler_accept(repetition_.get(), token);
    }
    llama_sampler_accept(chain_.get(), token);
    return token;
}

} // namespace exo::engine
