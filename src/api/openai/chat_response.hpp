// SPDX-License-Identifier: Apache-2.0
//
// An answer in OpenAI's shapes: the text of one JSON object, or of server-sent events. Pure: fed
// with the events of one generation, in order.
#pragma once

#include "api/error/api_error.hpp"
#include "model/generation.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace exo::api::openai {

struct ChatIdentity {
    model::TaskId task_id;    // The answer's id is "chatcmpl-" and this.
    std::int64_t created = 0; // Seconds since 1970.
    model::ModelId model;
};

// The comment that keeps proxies and clients waiting while there is no data.
constexpr std::string_view keep_alive = ": keep-alive\n\n";

// Events to server-sent events. After an error or the end, `done()` is true and nothing follows.
class ChatStream {
public:
    ChatStream(ChatIdentity identity, bool include_usage);

    // What to send for `event`. Nothing after the end. REQUIRES: !done().
    [[nodiscard]] std::string write(model::GenerationEvent const& event);

    // An error of our own, in place of further events. REQUIRES: !done().
    [[nodiscard]] std::string fail(ApiError const& error);

    [[nodiscard]] bool done() const { return done_; }

private:
    [[nodiscard]] std::string first_chunk();
    [[nodiscard]] std::string finish(model::GenerationFinished const& finished);

    ChatIdentity identity_;
    bool include_usage_;
    bool started_ = false;
    bool done_ = false;
};

// Events to one chat.completion object.
class ChatAnswer {
public:
    explicit ChatAnswer(ChatIdentity identity);

    // True with the last event. REQUIRES: it was not true before.
    [[nodiscard]] bool add(model::GenerationEvent const& event);

    // The object, or why there is none. REQUIRES: add() has returned true.
    [[nodiscard]] ApiResult<std::string> take();

    [[nodiscard]] std::size_t bytes() const { return text_.size(); }

private:
    ChatIdentity identity_;
    std::string text_;
    model::GenerationFinished finished_;
    std::optional<ApiError> error_;
    bool done_ = false;
};

} // namespace exo::api::openai
