// SPDX-License-Identifier: Apache-2.0
#include "api/error/api_error.hpp"

#include <nlohmann/json.hpp>

#include <array>
#include <stdexcept>
#include <utility>

namespace exo::api {
namespace {

constexpr std::string_view context_length_exceeded = "context_length_exceeded";

std::optional<Errc> errc_from(std::string_view name) {
    static constexpr std::array all{
        Errc::invalid_argument,
        Errc::not_found,
        Errc::conflict,
        Errc::unavailable,
        Errc::timed_out,
        Errc::cancelled,
        Errc::limit,
        Errc::protocol,
        Errc::corrupt,
        Errc::io,
        Errc::unsupported,
        Errc::internal
    };
    for (auto const code : all) {
        if (to_string(code) == name) {
            return code;
        }
    }
    return std::nullopt;
}

// OpenAI's clients look at the status; people read the type.
std::string type_of(unsigned status) {
    return status < 500 ? "invalid_request_error" : "server_error";
}

} // namespace

void throw_exception_from_error(ApiError const& error, boost::source_location const&) {
    throw std::runtime_error(error.message);
}

unsigned http_status(Errc code) {
    switch (code) {
    case Errc::invalid_argument:
    case Errc::unsupported:
        return 400;
    case Errc::not_found:
        return 404;
    case Errc::conflict:
        return 409;
    case Errc::limit:
        return 429;
    case Errc::unavailable:
    case Errc::cancelled:
        return 503;
    case Errc::timed_out:
        return 504;
    case Errc::protocol:
    case Errc::corrupt:
    case Errc::io:
    case Errc::internal:
        return 500;
    }
    return 500;
}

ApiError to_api_error(Error const& error) {
    unsigned const status = http_status(error.code());
    return {
        .status = status,
        .message = error.text(),
        .type = type_of(status),
        .param = std::nullopt,
        .code = to_string(error.code())
    };
}

ApiError to_api_error(std::string_view failure_code, std::string message) {
    if (failure_code == context_length_exceeded) {
        return {
            .status = 400,
            .message = std::move(message),
            .type = type_of(400),
            .param = "messages",
            .code = std::string(context_length_exceeded)
        };
    }
    return to_api_error(Error(errc_from(failure_code).value_or(Errc::internal), std::move(message))
    );
}

ApiError bad_request(std::string param, std::string message) {
    std::optional<std::string> named;
    if (!param.empty()) {
        message.insert(0, param + ": ");
        named = std::move(param);
    }
    return {
        .status = 400,
        .message = std::move(message),
        .type = type_of(400),
        .param = std::move(named),
        .code = std::nullopt
    };
}

ApiError model_not_found(std::string message) {
    return {
        .status = 404,
        .message = std::move(message),
        .type = type_of(404),
        .param = "model",
        .code = "model_not_found"
    };
}

std::string to_json(ApiError const& error) {
    auto const or_null = [](std::optional<std::string> const& text) {
        return text ? nlohmann::ordered_json(*text) : nlohmann::ordered_json();
    };
    nlohmann::ordered_json inner;
    inner["message"] = error.message;
    inner["type"] = error.type;
    inner["param"] = or_null(error.param);
    inner["code"] = or_null(error.code);
    nlohmann::ordered_json envelope;
    envelope["error"] = std::move(inner);
    // A message can quote what a client sent: never throw because of that.
    return envelope.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace exo::api
