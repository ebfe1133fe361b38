// SPDX-License-Identifier: Apache-2.0
#include "api/http/origin.hpp"

#include "base/text.hpp"

#include <algorithm>

namespace exo::api::http {
namespace {

// "localhost:3000" of "http://localhost:3000"; empty for what no web server has ("null").
std::string authority_of(std::string const& origin) {
    for (std::string_view const scheme : {"http://", "https://"}) {
        if (origin.starts_with(scheme)) {
            return origin.substr(scheme.size());
        }
    }
    return "";
}

std::string without_port(std::string const& authority) {
    auto const colon = authority.rfind(':');
    bool const in_brackets = authority.ends_with(']');
    return colon == std::string::npos || in_brackets ? authority : authority.substr(0, colon);
}

bool all_digits_and_dots(std::string const& text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
        return c == '.' || (c >= '0' && c <= '9');
    });
}

// "127.evil.example" begins like one and is none.
bool is_loopback(std::string const& host) {
    return host == "localhost" || host == "[::1]" ||
           (host.starts_with("127.") && all_digits_and_dots(host));
}

} // namespace

bool origin_allowed(
    std::string_view origin, std::string_view host, std::span<std::string const> listed
) {
    if (origin.empty()) {
        return true;
    }
    auto const asked = to_lower(origin);
    auto const is_listed = [&](std::string const& one) {
        return one == "*" || to_lower(one) == asked;
    };
    if (std::any_of(listed.begin(), listed.end(), is_listed)) {
        return true;
    }
    auto const authority = authority_of(asked);
    return !authority.empty() &&
           (authority == to_lower(host) || is_loopback(without_port(authority)));
}

} // namespace exo::api::http
