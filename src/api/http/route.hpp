// SPDX-License-Identifier: Apache-2.0
//
// Which handler answers which method and path: the one table of all routes. Pure.
#pragma once

#include "api/error/api_error.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace exo::api::http {

enum class Handler {
    health,
    node_id,
    state,
    state_part,
    network_diagnosis,
    models,
    model,
    place_instance,
    get_instance,
    delete_instance,
    chat_completions,
};

struct Route {
    std::string_view method;
    // "{id}" is one segment; "{path...}" at the end is all that follows.
    std::string_view pattern;
    Handler handler;
};

[[nodiscard]] std::span<Route const> routes();

struct Match {
    Route const* route = nullptr;
    std::vector<std::string> parameters; // Percent-decoded, one a segment.
};

// `target` is a request's: a path with or without query, or an absolute URL (as proxies send it).
// HEAD matches GET's routes. Errors: 400 (bad percent encoding), 404 and 405, which name the
// routes there are.
[[nodiscard]] ApiResult<Match> match(std::string_view method, std::string_view target);

// The methods that a path knows, for the Allow header: "GET, HEAD". Empty when it knows none.
[[nodiscard]] std::string allowed_methods(std::string_view target);

} // namespace exo::api::http
