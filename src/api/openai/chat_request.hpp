// SPDX-License-Identifier: Apache-2.0
//
// The body of POST /v1/chat/completions, read strictly: what is wrong or not supported is refused
// here, by the name of its field, and nowhere later. Pure.
#pragma once

#include "api/error/api_error.hpp"
#include "model/generation.hpp"

#include <string_view>

namespace exo::api::openai {

constexpr std::size_t messages_max = 4096; // More is a loop in the client, not a conversation.
constexpr std::size_t stops_max = 16;      // OpenAI allows 4; other servers' clients send more.
constexpr std::size_t stop_bytes_max = 1024;
constexpr std::size_t model_bytes_max = 512;
constexpr int json_depth_max = 64; // Tool schemas reach 20.

struct ChatRequest {
    model::GenerationRequest generation; // Without task_id; `model` as the client wrote it.
    bool stream = false;
    bool include_usage = false;

    bool operator==(ChatRequest const&) const = default;
};

// Rules: a null field is an absent field; unknown fields are ignored, as OpenAI does; known fields
// that exo cannot honour (tools, response_format, logprobs, n above 1, images ...) are errors
// unless they ask for nothing.
[[nodiscard]] ApiResult<ChatRequest> parse_chat_request(std::string_view body);

} // namespace exo::api::openai
