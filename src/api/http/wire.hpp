// SPDX-License-Identifier: Apache-2.0
//
// Answers as the text of HTTP/1.1. Pure.
#pragma once

#include "api/error/api_error.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace exo::api::http {

struct Answer {
    unsigned status = 200;
    std::string body; // JSON
    std::vector<std::pair<std::string, std::string>> headers;
};

[[nodiscard]] Answer to_answer(ApiError const& error);

// What of the request shapes its answer.
struct Framing {
    bool keep_alive = true;
    bool head = false;   // HEAD: the header says the length, and no body follows.
    bool chunked = true; // HTTP/1.1; a stream to HTTP/1.0 ends with its connection.
    std::string origin;  // Allowed one, for Access-Control-Allow-Origin; empty otherwise.
};

// Header and body of a whole answer.
[[nodiscard]] std::string answer_text(Answer const& answer, Framing const& framing);

// The header of a stream of server-sent events.
[[nodiscard]] std::string stream_head(Framing const& framing);

// `data` as one chunk of a stream. Data that is empty gives no chunk: that would end the stream.
[[nodiscard]] std::string stream_chunk(std::string_view data, Framing const& framing);
[[nodiscard]] std::string stream_end(Framing const& framing);

} // namespace exo::api::http
