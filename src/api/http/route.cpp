// SPDX-License-Identifier: Apache-2.0
#include "api/http/route.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace exo::api::http {
namespace {

constexpr std::array<Route, 13> table{{
    {"GET", "/health", Handler::health},
    {"GET", "/node_id", Handler::node_id},
    {"GET", "/state", Handler::state},
    {"GET", "/state/{path...}", Handler::state_part},
    {"GET", "/network/diagnosis", Handler::network_diagnosis},
    {"GET", "/v1/models", Handler::models},
    {"GET", "/models", Handler::models},
    {"GET", "/v1/models/{path...}", Handler::model},
    {"POST", "/v1/chat/completions", Handler::chat_completions},
    {"POST", "/place_instance", Handler::place_instance},
    {"GET", "/instance/{id}", Handler::get_instance},
    {"DELETE", "/instance/{id}", Handler::delete_instance},
    // For clients whose base URL lacks the version.
    {"POST", "/chat/completions", Handler::chat_completions},
}};

std::optional<int> hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    char const lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? std::optional(lower - 'a' + 10) : std::nullopt;
}

std::optional<std::string> percent_decoded(std::string_view text) {
    std::string decoded;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            decoded += text[i];
            continue;
        }
        auto const high = i + 2 < text.size() ? hex_digit(text[i + 1]) : std::nullopt;
        auto const low = i + 2 < text.size() ? hex_digit(text[i + 2]) : std::nullopt;
        if (!high || !low) {
            return std::nullopt;
        }
        decoded += static_cast<char>(*high * 16 + *low);
        i += 2;
    }
    return is_utf8(decoded) ? std::optional(decoded) : std::nullopt;
}

std::string_view path_of(std::string_view target) {
    if (auto const scheme = target.find("://"); scheme != std::string_view::npos && scheme < 8) {
        auto const slash = target.find('/', scheme + 3);
        target = slash == std::string_view::npos ? "/" : target.substr(slash);
    }
    target = target.substr(0, target.find_first_of("?#"));
    // "/health/" is "/health".
    return target.size() > 1 && target.ends_with('/') ? target.substr(0, target.size() - 1)
                                                      : target;
}

bool is_parameter(std::string_view segment) {
    return segment.starts_with('{');
}

// The segments that stand for parameters; nothing when the path is another.
std::optional<std::vector<std::string>>
parameters_of(std::string_view pattern, std::vector<std::string> const& path) {
    auto const expected = split(pattern, '/');
    bool const open = expected.back() == "{path...}";
    if (path.size() < expected.size() || (path.size() > expected.size() && !open)) {
        return std::nullopt;
    }
    std::vector<std::string> parameters;
    for (std::size_t i = 0; i < path.size(); ++i) {
        auto const& wanted = expected[std::min(i, expected.size() - 1)];
        if (is_parameter(wanted)) {
            parameters.push_back(path[i]);
        } else if (path[i] != wanted) {
            return std::nullopt;
        }
    }
    return parameters;
}

bool fits(Route const& route, std::string_view method) {
    return route.method == method || (method == "HEAD" && route.method == "GET");
}

ApiError no_such_route(std::string_view method, std::string_view path, std::string const& allowed) {
    std::string known;
    for (auto const& route : table) {
        known += fmt::format("{}{} {}", known.empty() ? "" : ", ", route.method, route.pattern);
    }
    bool const wrong_method = !allowed.empty();
    return {
        .status = wrong_method ? 405u : 404u,
        .message = fmt::format(
            "exo has no {} {}; {}it has: {}",
            utf8_prefix(method, 20),
            utf8_prefix(path, 200),
            wrong_method ? "that path knows " + allowed + "; " : "",
            known
        ),
        .type = "invalid_request_error",
        .param = std::nullopt,
        .code = wrong_method ? "method_not_allowed" : "unknown_url"
    };
}

} // namespace

std::span<Route const> routes() {
    return table;
}

ApiResult<Match> match(std::string_view method, std::string_view target) {
    auto const path = path_of(target);
    std::vector<std::string> segments;
    for (auto const& raw : split(path, '/')) {
        auto decoded = percent_decoded(raw);
        if (!decoded) {
            return bad_request("", "the path has a bad percent encoding");
        }
        segments.push_back(std::move(*decoded));
    }
    for (auto const& route : table) {
        auto parameters = parameters_of(route.pattern, segments);
        if (parameters && fits(route, method)) {
            return Match{.route = &route, .parameters = std::move(*parameters)};
        }
    }
    return no_such_route(method, path, allowed_methods(target));
}

std::string allowed_methods(std::string_view target) {
    std::string allowed;
    auto const segments = split(path_of(target), '/');
    for (auto const& route : table) {
        if (parameters_of(route.pattern, segments)) {
            allowed += (allowed.empty() ? "" : ", ") + std::string(route.method) +
                       (route.method == "GET" ? ", HEAD" : "");
        }
    }
    return allowed;
}

} // namespace exo::api::http
