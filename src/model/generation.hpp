// SPDX-License-Identifier: Apache-2.0
//
// One request for text, whatever API it came by, and what is said in answer. It travels from the
// API node to rank 0's node by direct stream and never through the log.
#pragma once

#include "model/ids.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace exo::model {

struct ChatMessage {
    std::string role; // system, user, assistant, developer, tool
    std::string content;
    std::optional<std::string> name;

    bool operator==(ChatMessage const&) const = default;
};

// What is not given takes the model card's default, then the engine's.
struct Sampling {
    std::optional<double> temperature; // 0 is greedy.
    std::optional<double> top_p;
    std::optional<std::int32_t> top_k;
    std::optional<double> min_p;
    std::optional<std::uint32_t> seed; // Without one each request draws its own.
    std::optional<double> repetition_penalty;
    std::optional<double> presence_penalty;
    std::optional<double> frequency_penalty;

    bool operator==(Sampling const&) const = default;
};

struct GenerationRequest {
    TaskId task_id;
    ModelId model;
    std::vector<ChatMessage> messages; // Rendered by the model's chat template.
    Sampling sampling;
    std::optional<std::uint32_t> max_tokens; // Without it: until the context is full.
    std::vector<std::string> stop;

    bool operator==(GenerationRequest const&) const = default;
};

enum class FinishReason { stop, length };

struct Usage {
    std::uint32_t prompt_tokens = 0;
    std::uint32_t completion_tokens = 0;
    std::uint32_t cached_tokens = 0;

    bool operator==(Usage const&) const = default;
};

struct GenerationStats {
    double prompt_tokens_per_second = 0;
    double generation_tokens_per_second = 0;
    // Of a speculating instance: tokens that were guessed and checked, and those that were right.
    std::optional<std::uint32_t> drafted_tokens;
    std::optional<std::uint32_t> accepted_tokens;

    bool operator==(GenerationStats const&) const = default;
};

struct PrefillProgress {
    std::uint32_t processed_tokens = 0;
    std::uint32_t total_tokens = 0;

    bool operator==(PrefillProgress const&) const = default;
};

// A piece of the answer: whole UTF-8 characters, one or more tokens. `number` counts deltas from
// 0 without gaps (specs/cluster.md T3).
struct TokenDelta {
    std::uint64_t number = 0;
    std::string text;
    std::uint32_t token_count = 0;

    bool operator==(TokenDelta const&) const = default;
};

// The last event of an answer, exactly one of Finished and Failed.
struct GenerationFinished {
    FinishReason finish_reason = FinishReason::stop;
    Usage usage;
    GenerationStats stats;

    bool operator==(GenerationFinished const&) const = default;
};

// `code` is the name of a base Errc ("invalid_argument": the request cannot be served as it is;
// "unavailable": the instance or a node is gone), or "context_length_exceeded" for a prompt longer
// than the context.
struct GenerationFailed {
    std::string code;
    std::string message;

    bool operator==(GenerationFailed const&) const = default;
};

using GenerationEvent =
    std::variant<PrefillProgress, TokenDelta, GenerationFinished, GenerationFailed>;

} // namespace exo::model
