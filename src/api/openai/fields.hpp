// SPDX-License-Identifier: Apache-2.0
//
// Strict reading of a JSON object: each field by name, with its type and range. The first thing
// that is wrong is kept, with the path of its field; after it everything reads as absent. A null
// field is an absent one.
#pragma once

#include "api/error/api_error.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace exo::api::openai {

using Json = nlohmann::json;

class Fields {
public:
    // `path` is where the object is, "" for the body itself. `object` outlives this.
    Fields(Json const& object, std::string path);

    // Null when absent.
    [[nodiscard]] Json const* find(std::string_view name) const;
    [[nodiscard]] std::string path(std::string_view name) const;

    [[nodiscard]] std::optional<double> number(std::string_view name, double least, double most);
    [[nodiscard]] std::optional<std::int64_t>
    integer(std::string_view name, std::int64_t least, std::int64_t most);
    [[nodiscard]] std::optional<bool> boolean(std::string_view name);
    // At most `bytes_max` long; an empty text only when `bytes_min` is 0.
    [[nodiscard]] std::optional<std::string>
    text(std::string_view name, std::size_t bytes_min, std::size_t bytes_max);
    [[nodiscard]] Json const* array(std::string_view name);
    [[nodiscard]] Json const* object(std::string_view name);

    // Keeps the first error only.
    void fail(std::string_view name, std::string message);
    void fail(ApiError error);

    [[nodiscard]] std::optional<ApiError> const& error() const { return error_; }

private:
    [[nodiscard]] Json const*
    typed(std::string_view name, bool (*is)(Json const&), char const* kind);

    Json const& object_;
    std::string path_;
    std::optional<ApiError> error_;
};

// "a number", "a string", ... for messages.
[[nodiscard]] std::string kind_of(Json const& value);

} // namespace exo::api::openai
