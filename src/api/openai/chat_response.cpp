// SPDX-License-Identifier: Apache-2.0
#include "api/openai/chat_response.hpp"

#include "base/assert.hpp"
#include "base/overloaded.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace exo::api::openai {
namespace {

// Ordered: an answer reads like OpenAI's.
using Json = nlohmann::ordered_json;

std::string to_text(Json const& json) {
    // Tokens are whole characters; should one not be, the stream must not die of it.
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string event_of(Json const& json) {
    return "data: " + to_text(json) + "\n\n";
}

std::string comment_of(std::string_view name, Json const& json) {
    return ": " + std::string(name) + " " + to_text(json) + "\n\n";
}

Json head_of(ChatIdentity const& identity, char const* object) {
    Json json;
    json["id"] = "chatcmpl-" + identity.task_id.value();
    json["object"] = object;
    json["created"] = identity.created;
    json["model"] = identity.model.value();
    return json;
}

// A chunk with one choice. `delta` has only what there is: clients take null for a value.
std::string chunk_of(ChatIdentity const& identity, Json delta, Json finish_reason) {
    Json choice;
    choice["index"] = 0;
    choice["delta"] = std::move(delta);
    choice["finish_reason"] = std::move(finish_reason);
    Json json = head_of(identity, "chat.completion.chunk");
    json["choices"] = Json::array({std::move(choice)});
    return event_of(json);
}

char const* name_of(model::FinishReason reason) {
    switch (reason) {
    case model::FinishReason::stop:
        return "stop";
    case model::FinishReason::length:
        return "length";
    }
    return "stop";
}

Json usage_of(model::GenerationFinished const& finished) {
    auto const& usage = finished.usage;
    Json json;
    json["prompt_tokens"] = usage.prompt_tokens;
    json["completion_tokens"] = usage.completion_tokens;
    json["total_tokens"] = std::uint64_t{usage.prompt_tokens} + usage.completion_tokens;
    json["prompt_tokens_details"]["cached_tokens"] = usage.cached_tokens;
    if (auto const drafted = finished.stats.drafted_tokens) {
        auto const accepted = finished.stats.accepted_tokens.value_or(0);
        json["completion_tokens_details"]["accepted_prediction_tokens"] = accepted;
        json["completion_tokens_details"]["rejected_prediction_tokens"] =
            *drafted - std::min(accepted, *drafted);
    }
    return json;
}

Json stats_of(model::GenerationFinished const& finished) {
    Json json;
    json["prompt_tps"] = finished.stats.prompt_tokens_per_second;
    json["generation_tps"] = finished.stats.generation_tokens_per_second;
    json["prompt_tokens"] = finished.usage.prompt_tokens;
    json["generation_tokens"] = finished.usage.completion_tokens;
    if (finished.stats.drafted_tokens) {
        json["drafted_tokens"] = *finished.stats.drafted_tokens;
        json["accepted_tokens"] = finished.stats.accepted_tokens.value_or(0);
    }
    return json;
}

std::string progress_of(ChatIdentity const& identity, model::PrefillProgress const& progress) {
    Json json;
    json["model"] = identity.model.value();
    json["processed_tokens"] = progress.processed_tokens;
    json["total_tokens"] = progress.total_tokens;
    Json tagged;
    tagged["PrefillProgressChunk"] = std::move(json);
    return comment_of("prefill_progress", tagged);
}

} // namespace

ChatStream::ChatStream(ChatIdentity identity, bool include_usage)
    : identity_(std::move(identity))
    , include_usage_(include_usage) {}

std::string ChatStream::first_chunk() {
    if (std::exchange(started_, true)) {
        return "";
    }
    Json delta;
    delta["role"] = "assistant";
    delta["content"] = "";
    return chunk_of(identity_, std::move(delta), nullptr);
}

std::string ChatStream::finish(model::GenerationFinished const& finished) {
    done_ = true;
    std::string text = first_chunk();
    text += chunk_of(identity_, Json::object(), name_of(finished.finish_reason));
    if (include_usage_) {
        Json json = head_of(identity_, "chat.completion.chunk");
        json["choices"] = Json::array();
        json["usage"] = usage_of(finished);
        text += event_of(json);
    }
    text += comment_of("generation_stats", stats_of(finished));
    return text + "data: [DONE]\n\n";
}

std::string ChatStream::write(model::GenerationEvent const& event) {
    EXO_ASSERT(!done_);
    return std::visit(
        Overloaded{
            [&](model::PrefillProgress const& progress) {
                return progress_of(identity_, progress);
            },
            [&](model::TokenDelta const& token) {
                std::string text = first_chunk();
                if (!token.text.empty()) {
                    Json delta;
                    delta["content"] = token.text;
                    text += chunk_of(identity_, std::move(delta), nullptr);
                }
                return text;
            },
            [&](model::GenerationFinished const& finished) { return finish(finished); },
            [&](model::GenerationFailed const& failed) {
                return fail(to_api_error(failed.code, failed.message));
            },
        },
        event
    );
}

std::string ChatStream::fail(ApiError const& error) {
    EXO_ASSERT(!done_);
    done_ = true;
    // No finish_reason and no [DONE]: a broken answer must not look like a whole one.
    return "data: " + to_json(error) + "\n\n";
}

ChatAnswer::ChatAnswer(ChatIdentity identity)
    : identity_(std::move(identity)) {}

bool ChatAnswer::add(model::GenerationEvent const& event) {
    EXO_ASSERT(!done_);
    std::visit(
        Overloaded{
            [](model::PrefillProgress const&) {},
            [&](model::TokenDelta const& token) { text_ += token.text; },
            [&](model::GenerationFinished const& finished) {
                finished_ = finished;
                done_ = true;
            },
            [&](model::GenerationFailed const& failed) {
                error_ = to_api_error(failed.code, failed.message);
                done_ = true;
            },
        },
        event
    );
    return done_;
}

ApiResult<std::string> ChatAnswer::take() {
    EXO_ASSERT(done_);
    if (error_) {
        return std::move(*error_);
    }
    Json message;
    message["role"] = "assistant";
    message["content"] = std::move(text_);
    message["refusal"] = nullptr;
    Json choice;
    choice["index"] = 0;
    choice["message"] = std::move(message);
    choice["logprobs"] = nullptr;
    choice["finish_reason"] = name_of(finished_.finish_reason);
    Json json = head_of(identity_, "chat.completion");
    json["choices"] = Json::array({std::move(choice)});
    json["usage"] = usage_of(finished_);
    return to_text(json);
}

} // namespace exo::api::openai
