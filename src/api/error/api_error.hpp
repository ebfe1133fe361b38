// SPDX-License-Identifier: Apache-2.0
//
// How the HTTP API says no: one error type, one table from Errc to HTTP status, one JSON envelope
// (OpenAI's). Pure.
#pragma once

#include "base/result.hpp"

#include <boost/system/result.hpp>

#include <optional>
#include <string>
#include <string_view>

namespace exo::api {

struct ApiError {
    unsigned status = 500;
    std::string message;
    std::string type; // "invalid_request_error", "server_error", ...
    std::optional<std::string>
        param; // The field of the request that is wrong, as "messages[0].role".
    std::optional<std::string> code; // "model_not_found", "context_length_exceeded", ...

    bool operator==(ApiError const&) const = default;
};

template <class T = void>
using ApiResult = boost::system::result<T, ApiError>;

[[noreturn]] void
throw_exception_from_error(ApiError const& error, boost::source_location const& at);

// The HTTP status of an Errc.
[[nodiscard]] unsigned http_status(Errc code);

[[nodiscard]] ApiError to_api_error(Error const& error);

// From the code and message of model::GenerationFailed. Besides the names of Errc it knows
// "context_length_exceeded" (400). Another code is 500.
[[nodiscard]] ApiError to_api_error(std::string_view failure_code, std::string message);

// 400, naming the field.
[[nodiscard]] ApiError bad_request(std::string param, std::string message);

// 404, code model_not_found.
[[nodiscard]] ApiError model_not_found(std::string message);

// {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
[[nodiscard]] std::string to_json(ApiError const& error);

} // namespace exo::api
