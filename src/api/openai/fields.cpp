// SPDX-License-Identifier: Apache-2.0
#include "api/openai/fields.hpp"

#include <fmt/format.h>

#include <utility>

namespace exo::api::openai {

std::string kind_of(Json const& value) {
    switch (value.type()) {
    case Json::value_t::null:
        return "null";
    case Json::value_t::object:
        return "an object";
    case Json::value_t::array:
        return "a list";
    case Json::value_t::string:
        return "a string";
    case Json::value_t::boolean:
        return "a boolean";
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
    case Json::value_t::number_float:
        return "a number";
    case Json::value_t::binary:
    case Json::value_t::discarded:
        break;
    }
    return "something else";
}

Fields::Fields(Json const& object, std::string path)
    : object_(object)
    , path_(std::move(path)) {}

Json const* Fields::find(std::string_view name) const {
    auto const found = object_.find(name);
    return error_ || found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::string Fields::path(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

void Fields::fail(std::string_view name, std::string message) {
    fail(bad_request(path(name), std::move(message)));
}

void Fields::fail(ApiError error) {
    if (!error_) {
        error_ = std::move(error);
    }
}

Json const* Fields::typed(std::string_view name, bool (*is)(Json const&), char const* kind) {
    auto const* value = find(name);
    if (value != nullptr && !is(*value)) {
        fail(name, fmt::format("{} expected, got {}", kind, kind_of(*value)));
        return nullptr;
    }
    return value;
}

std::optional<double> Fields::number(std::string_view name, double least, double most) {
    auto const* value = typed(name, [](Json const& v) { return v.is_number(); }, "a number");
    if (value == nullptr) {
        return std::nullopt;
    }
    auto const number = value->get<double>();
    if (!(number >= least && number <= most)) {
        fail(name, fmt::format("must be from {} to {}, got {}", least, most, number));
        return std::nullopt;
    }
    return number;
}

std::optional<std::int64_t>
Fields::integer(std::string_view name, std::int64_t least, std::int64_t most) {
    auto const* value =
        typed(name, [](Json const& v) { return v.is_number_integer(); }, "an integer");
    if (value == nullptr) {
        return std::nullopt;
    }
    bool const fits =
        !value->is_number_unsigned() || std::in_range<std::int64_t>(value->get<std::uint64_t>());
    std::int64_t const number = fits ? value->get<std::int64_t>() : 0;
    if (!fits || number < least || number > most) {
        fail(name, fmt::format("must be from {} to {}, got {}", least, most, value->dump()));
        return std::nullopt;
    }
    return number;
}

std::optional<bool> Fields::boolean(std::string_view name) {
    auto const* value = typed(name, [](Json const& v) { return v.is_boolean(); }, "a boolean");
    return value != nullptr ? std::optional(value->get<bool>()) : std::nullopt;
}

std::optional<std::string>
Fields::text(std::string_view name, std::size_t bytes_min, std::size_t bytes_max) {
    auto const* value = typed(name, [](Json const& v) { return v.is_string(); }, "a string");
    if (value == nullptr) {
        return std::nullopt;
    }
    auto const& text = value->get_ref<std::string const&>();
    if (text.size() < bytes_min || text.size() > bytes_max) {
        fail(
            name,
            text.empty()
                ? "must not be empty"
                : fmt::format("has {} bytes, at most {} are allowed", text.size(), bytes_max)
        );
        return std::nullopt;
    }
    return text;
}

Json const* Fields::array(std::string_view name) {
    return typed(name, [](Json const& v) { return v.is_array(); }, "a list");
}

Json const* Fields::object(std::string_view name) {
    return typed(name, [](Json const& v) { return v.is_object(); }, "an object");
}

} // namespace exo::api::openai
