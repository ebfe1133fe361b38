// SPDX-License-Identifier: Apache-2.0
#include "api/http/wire.hpp"

#include <boost/beast/http/status.hpp>
#include <fmt/format.h>

namespace exo::api::http {
namespace {

std::string status_line(unsigned status) {
    auto const reason =
        boost::beast::http::obsolete_reason(boost::beast::http::int_to_status(status));
    return fmt::format(
        "HTTP/1.1 {} {}\r\n", status, std::string_view(reason.data(), reason.size())
    );
}

void add(std::string& text, std::string_view name, std::string_view value) {
    text += fmt::format("{}: {}\r\n", name, value);
}

void add_common(std::string& text, Framing const& framing) {
    add(text, "Connection", framing.keep_alive ? "keep-alive" : "close");
    // A cache must not give one origin's answer to another.
    add(text, "Vary", "Origin");
    if (!framing.origin.empty()) {
        add(text, "Access-Control-Allow-Origin", framing.origin);
    }
}

} // namespace

Answer to_answer(ApiError const& error) {
    return {.status = error.status, .body = to_json(error), .headers = {}};
}

std::string answer_text(Answer const& answer, Framing const& framing) {
    std::string text = status_line(answer.status);
    if (answer.status != 204) {
        add(text, "Content-Type", "application/json");
        add(text, "Content-Length", fmt::to_string(answer.body.size()));
        add(text, "Cache-Control", "no-store");
    }
    add_common(text, framing);
    for (auto const& [name, value] : answer.headers) {
        add(text, name, value);
    }
    text += "\r\n";
    if (!framing.head && answer.status != 204) {
        text += answer.body;
    }
    return text;
}

std::string stream_head(Framing const& framing) {
    std::string text = status_line(200);
    add(text, "Content-Type", "text/event-stream; charset=utf-8");
    add(text, "Cache-Control", "no-cache");
    add(text, "X-Accel-Buffering", "no"); // nginx would collect tokens otherwise.
    if (framing.chunked) {
        add(text, "Transfer-Encoding", "chunked");
    }
    add_common(text, framing);
    return text + "\r\n";
}

std::string stream_chunk(std::string_view data, Framing const& framing) {
    if (data.empty() || !framing.chunked) {
        return std::string(data);
    }
    return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

std::string stream_end(Framing const& framing) {
    return framing.chunked ? "0\r\n\r\n" : "";
}

} // namespace exo::api::http
