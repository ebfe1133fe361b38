// SPDX-License-Identifier: Apache-2.0
//
// Which web pages may use the API (see server.hpp). Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace exo::api::http {

// `origin` and `host` are the request's headers. Allowed: no origin (not a browser, or a page's
// plain GET of its own server), the server's own origin, loopback origins, and those listed ("*"
// lists all).
[[nodiscard]] bool
origin_allowed(std::string_view origin, std::string_view host, std::span<std::string const> listed);

} // namespace exo::api::http
