// SPDX-License-Identifier: Apache-2.0
#include "api/openai/chat_request.hpp"

#include "api/openai/fields.hpp"
#include "model/json.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace exo::api::openai {
namespace {

constexpr std::size_t text_bytes_max = std::numeric_limits<std::size_t>::max(); // The body's limit.
constexpr std::size_t name_bytes_max = 256;
constexpr std::int64_t tokens_max = std::numeric_limits<std::int32_t>::max();

// Fields that change the answer and that exo cannot honour yet. Refused, for an agent that gets
// plain text where it asked for a tool call or a schema fails later and worse.
constexpr std::array<std::string_view, 20> unsupported{
    "tools",
    "functions",
    "logit_bias",
    "top_logprobs",
    "audio",
    "prediction",
    "web_search_options",
    "reasoning_effort",
    "enable_thinking",
    "chat_template_kwargs",
    "repetition_context_size",
    "grammar",
    "json_schema",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "stop_token_ids",
    "ignore_eos",
};

// An empty list or object, 0 and false ask for nothing.
bool asks_for_nothing(Json const& value) {
    return ((value.is_array() || value.is_object()) && value.empty()) || value == Json(0) ||
           value == Json(false);
}

void refuse(Fields& body, std::string_view name) {
    body.fail(name, "is not supported by exo yet: leave it out");
}

void refuse_unsupported(Fields& body) {
    for (auto const name : unsupported) {
        auto const* value = body.find(name);
        if (value != nullptr && !asks_for_nothing(*value)) {
            refuse(body, name);
        }
    }
    if (body.integer("n", 1, 128).value_or(1) != 1) {
        body.fail("n", "more than one answer is not supported by exo yet");
    }
    if (body.boolean("logprobs").value_or(false)) {
        refuse(body, "logprobs");
    }
    for (auto const* const choice : {"tool_choice", "function_call"}) {
        auto const* value = body.find(choice);
        if (value != nullptr && *value != "none" && *value != "auto") {
            refuse(body, choice);
        }
    }
    if (auto const* format = body.object("response_format")) {
        auto const type = Fields(*format, "response_format").find("type");
        if (type == nullptr || *type != "text") {
            body.fail("response_format", "only {\"type\": \"text\"} is supported by exo yet");
        }
    }
    if (auto const* modalities = body.array("modalities")) {
        if (*modalities != Json::array({"text"})) {
            body.fail("modalities", "only [\"text\"] is supported by exo yet");
        }
    }
}

// Fields that OpenAI's clients send and that change nothing here; their types still count.
void accept_without_effect(Fields& body) {
    (void)body.text("user", 0, text_bytes_max);
    (void)body.object("metadata");
    (void)body.boolean("store");
    (void)body.boolean("parallel_tool_calls");
}

// A part of a content list: {"type": "text", "text": ...}. What a model refused is text too.
void append_part(Fields& message, Json const& part, std::string const& path, std::string& content) {
    if (!part.is_object()) {
        return message.fail(bad_request(path, "an object expected, got " + kind_of(part)));
    }
    Fields fields(part, path);
    auto const type = fields.text("type", 1, name_bytes_max);
    if (!fields.error() && !type) {
        fields.fail("type", "is missing");
    } else if (type && *type != "text" && *type != "refusal") {
        fields.fail("type", fmt::format("'{}' is not supported by exo yet: only 'text'", *type));
    } else if (type) {
        auto const text = fields.text(*type, 0, text_bytes_max);
        if (!text && !fields.error()) {
            fields.fail(*type, "is missing");
        }
        content += (content.empty() ? "" : "\n") + text.value_or("");
    }
    if (fields.error()) {
        message.fail(*fields.error());
    }
}

std::string read_content(Fields& message) {
    auto const* content = message.find("content");
    if (content == nullptr) {
        message.fail("content", "is missing");
        return "";
    }
    if (content->is_string()) {
        return content->get<std::string>();
    }
    if (!content->is_array()) {
        message.fail("content", "a string or a list of parts expected, got " + kind_of(*content));
        return "";
    }
    std::string text;
    for (std::size_t i = 0; i < content->size() && !message.error(); ++i) {
        auto const path = fmt::format("{}[{}]", message.path("content"), i);
        append_part(message, (*content)[i], path, text);
    }
    return text;
}

std::string read_role(Fields& message) {
    auto const role = message.text("role", 1, name_bytes_max);
    if (!role) {
        message.fail("role", "is missing");
        return "";
    }
    if (*role == "developer") {
        return "system"; // OpenAI's new name for it; most chat templates know only the old one.
    }
    if (*role == "system" || *role == "user" || *role == "assistant") {
        return *role;
    }
    if (*role == "tool" || *role == "function") {
        message.fail("role", fmt::format("'{}' is not supported by exo yet", *role));
    } else {
        message.fail("role", "must be one of system, developer, user, assistant");
    }
    return "";
}

model::ChatMessage read_message(Fields& body, Json const& json, std::string const& path) {
    model::ChatMessage message;
    if (!json.is_object()) {
        body.fail(bad_request(path, "an object expected, got " + kind_of(json)));
        return message;
    }
    Fields fields(json, path);
    message.role = read_role(fields);
    for (auto const* const name : {"tool_calls", "function_call", "tool_call_id", "audio"}) {
        auto const* value = fields.find(name);
        if (value != nullptr && !asks_for_nothing(*value)) {
            refuse(fields, name);
        }
    }
    message.content = read_content(fields);
    message.name = fields.text("name", 1, name_bytes_max);
    if (fields.error()) {
        body.fail(*fields.error());
    }
    return message;
}

std::vector<model::ChatMessage> read_messages(Fields& body) {
    std::vector<model::ChatMessage> messages;
    auto const* list = body.array("messages");
    if (list == nullptr) {
        body.fail("messages", "is missing");
        return messages;
    }
    if (list->empty() || list->size() > messages_max) {
        body.fail(
            "messages",
            fmt::format("has {} messages, from 1 to {} are allowed", list->size(), messages_max)
        );
        return messages;
    }
    for (std::size_t i = 0; i < list->size() && !body.error(); ++i) {
        messages.push_back(read_message(body, (*list)[i], fmt::format("messages[{}]", i)));
    }
    return messages;
}

// OpenAI's seeds have 64 bits, the sampler's 32: equal seeds stay equal. All ones mean "draw one"
// to llama.cpp.
std::uint32_t fold_seed(std::int64_t seed) {
    auto const bits = static_cast<std::uint64_t>(seed);
    auto const folded = static_cast<std::uint32_t>(bits ^ bits >> 32);
    return folded == std::numeric_limits<std::uint32_t>::max() ? folded - 1 : folded;
}

model::Sampling read_sampling(Fields& body) {
    model::Sampling sampling;
    sampling.temperature = body.number("temperature", 0, 2);
    sampling.top_p = body.number("top_p", 0, 1);
    sampling.min_p = body.number("min_p", 0, 1);
    sampling.presence_penalty = body.number("presence_penalty", -2, 2);
    sampling.frequency_penalty = body.number("frequency_penalty", -2, 2);
    sampling.repetition_penalty = body.number("repetition_penalty", 0.01, 10);
    // -1 and 0 are two ways to say "all".
    if (auto const top_k = body.integer("top_k", -1, std::numeric_limits<std::int32_t>::max())) {
        sampling.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(*top_k, 0));
    }
    constexpr auto any = std::numeric_limits<std::int64_t>();
    if (auto const seed = body.integer("seed", any.min(), any.max())) {
        sampling.seed = fold_seed(*seed);
    }
    return sampling;
}

std::optional<std::uint32_t> read_max_tokens(Fields& body) {
    auto const older = body.integer("max_tokens", 1, tokens_max);
    auto const newer = body.integer("max_completion_tokens", 1, tokens_max);
    if (older && newer && *older != *newer) {
        body.fail("max_tokens", "differs from max_completion_tokens: give one of them");
    }
    auto const tokens = newer ? newer : older;
    return tokens ? std::optional(static_cast<std::uint32_t>(*tokens)) : std::nullopt;
}

std::vector<std::string> read_stop(Fields& body) {
    auto const* stop = body.find("stop");
    if (stop == nullptr) {
        return {};
    }
    Json const list = stop->is_string() ? Json::array({*stop}) : *stop;
    if (!list.is_array() || list.size() > stops_max) {
        body.fail(
            "stop", fmt::format("a string or a list of at most {} strings expected", stops_max)
        );
        return {};
    }
    std::vector<std::string> stops;
    for (auto const& text : list) {
        bool const good = text.is_string() && !text.get_ref<std::string const&>().empty() &&
                          text.get_ref<std::string const&>().size() <= stop_bytes_max;
        if (!good) {
            body.fail(
                "stop", fmt::format("each must be a string of 1 to {} bytes", stop_bytes_max)
            );
            return {};
        }
        stops.push_back(text.get<std::string>());
    }
    return stops;
}

void read_stream(Fields& body, ChatRequest& request) {
    request.stream = body.boolean("stream").value_or(false);
    auto const* options = body.object("stream_options");
    if (options == nullptr) {
        return;
    }
    if (!request.stream) {
        return body.fail("stream_options", "is only allowed when stream is true");
    }
    Fields fields(*options, "stream_options");
    request.include_usage = fields.boolean("include_usage").value_or(false);
    if (fields.error()) {
        body.fail(*fields.error());
    }
}

} // namespace

ApiResult<ChatRequest> parse_chat_request(std::string_view text) {
    auto const json = model::parse_json(text);
    if (!json) {
        return bad_request("", "the body is not valid JSON: " + json.error().text());
    }
    if (!json->is_object()) {
        return bad_request("", "the body must be a JSON object, got " + kind_of(*json));
    }
    Fields body(*json, "");
    ChatRequest request;
    auto const name = body.text("model", 1, model_bytes_max);
    if (!name) {
        body.fail("model", "is missing: GET /v1/models lists what there is");
    }
    request.generation.model = model::ModelId(name.value_or(""));
    request.generation.messages = read_messages(body);
    request.generation.sampling = read_sampling(body);
    request.generation.max_tokens = read_max_tokens(body);
    request.generation.stop = read_stop(body);
    read_stream(body, request);
    refuse_unsupported(body);
    accept_without_effect(body);
    if (body.error()) {
        return *body.error();
    }
    return request;
}

} // namespace exo::api::openai
