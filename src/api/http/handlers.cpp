// SPDX-License-Identifier: Apache-2.0
#include "api/http/handlers.hpp"

#include "api/exo/documents.hpp"
#include "api/http/route.hpp"
#include "base/log.hpp"
#include "model/json.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>

namespace exo::api::http {
namespace {

namespace asio = boost::asio;
using nlohmann::json;

// The master answers a command within a second, or there is none; this is against hanging for ever.
constexpr std::chrono::seconds command_time{60};

std::int64_t unix_seconds() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch()
    )
        .count();
}

Answer answer_of(json const& document) {
    return {.body = model::to_text(document)};
}

Answer answer_of(ApiResult<json> const& document) {
    return document ? answer_of(*document) : to_answer(document.error());
}

Answer model_answer(Backend& backend, std::vector<std::string> const& path) {
    auto const card = backend.find_model(fmt::format("{}", fmt::join(path, "/")));
    return card ? answer_of(exo_api::model_entry(*card, unix_seconds()))
                : to_answer(model_not_found(card.error().text()));
}

// The routes that need no waiting.
Answer answer_now(Backend& backend, Match const& match) {
    auto const view = backend.view();
    switch (match.route->handler) {
    case Handler::health:
        return answer_of(exo_api::health_document(view));
    case Handler::node_id:
        return answer_of(json(view.node_id.value()));
    case Handler::state:
        return answer_of(exo_api::state_document(view));
    case Handler::state_part:
        return answer_of(exo_api::state_part(exo_api::state_document(view), match.parameters));
    case Handler::network_diagnosis:
        return answer_of(backend.network_diagnosis());
    case Handler::models:
        return answer_of(exo_api::models_document(backend.models(), unix_seconds()));
    case Handler::model:
        return model_answer(backend, match.parameters);
    case Handler::get_instance:
        return answer_of(exo_api::instance_document(view, match.parameters.front()));
    case Handler::place_instance:
    case Handler::delete_instance:
    case Handler::chat_completions:
        break;
    }
    return to_answer(to_api_error(Error(Errc::internal, "this route is answered elsewhere")));
}

// Where the Backend puts the answer to a command. Two owners: the handler and the callback, for
// either may be gone first.
template <class T>
using Reply = std::shared_ptr<std::optional<Result<T>>>;

template <class T>
std::function<void(Result<T>)> filling(Reply<T> reply, Connection& connection) {
    return [reply = std::move(reply), weak = connection.weak_from_this()](Result<T> result) {
        *reply = std::move(result);
        if (auto const alive = weak.lock()) {
            alive->signal().notify();
        }
    };
}

template <class T>
asio::awaitable<Answer>
await_reply(Connection& connection, Reply<T> reply, json (*document)(T const&)) {
    auto const deadline = Clock::now() + command_time;
    connection.watch();
    while (!*reply && !connection.gone() && !connection.context().stopping &&
           Clock::now() < deadline) {
        co_await connection.signal().wait_until(deadline);
    }
    if (!*reply) {
        bool const stopping = connection.context().stopping;
        Error const error(
            stopping ? Errc::unavailable : Errc::timed_out,
            stopping ? "this node is shutting down" : "no answer from the master"
        );
        co_return to_answer(to_api_error(error));
    }
    auto const& result = **reply;
    co_return result ? answer_of(document(*result)) : to_answer(to_api_error(result.error()));
}

asio::awaitable<Answer> place_instance(Connection& connection, Request const& request) {
    auto const& backend = connection.context().backend;
    auto const place = exo_api::parse_place_request(request.body, [&](std::string const& model) {
        return backend.default_settings(model);
    });
    if (!place) {
        co_return to_answer(place.error());
    }
    auto reply = std::make_shared<std::optional<Result<Placed>>>();
    connection.context().backend.place_instance(*place, filling<Placed>(reply, connection));
    co_return co_await await_reply<Placed>(connection, reply, exo_api::placed_document);
}

asio::awaitable<Answer> delete_instance(Connection& connection, std::string instance_id) {
    auto reply = std::make_shared<std::optional<Result<Deleted>>>();
    connection.context().backend.delete_instance(
        model::InstanceId(std::move(instance_id)), filling<Deleted>(reply, connection)
    );
    co_return co_await await_reply<Deleted>(connection, reply, exo_api::deleted_document);
}

// What a browser asks before it sends: always answered, so that its console shows the real reason.
Answer preflight(Request const& request) {
    Answer answer{.status = 204};
    if (request.origin_allowed) {
        answer.headers = {
            {"Access-Control-Allow-Methods", "GET, HEAD, POST, DELETE, OPTIONS"},
            {"Access-Control-Allow-Headers",
             request.requested_headers.empty() ? "Authorization, Content-Type"
                                               : request.requested_headers},
            {"Access-Control-Max-Age", "600"},
        };
    }
    return answer;
}

bool changes_something(Request const& request) {
    return request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS";
}

ApiError foreign_origin() {
    return {
        .status = 403,
        .message = "web pages of this origin may not use exo's API: list it as allowed, or use a "
                   "page of this node or of localhost",
        .type = "invalid_request_error",
        .code = "origin_not_allowed"
    };
}

Answer no_route(Request const& request, ApiError const& error) {
    auto answer = to_answer(error);
    if (error.status == 405) {
        answer.headers.emplace_back("Allow", allowed_methods(request.target));
    }
    return answer;
}

} // namespace

asio::awaitable<void> send_answer(Connection& connection, Request const& request, Answer answer) {
    auto const text = answer_text(answer, request.framing);
    co_await connection.send(text);
}

asio::awaitable<void> handle(Connection& connection, Request const& request) {
    if (request.method == "OPTIONS") {
        co_await send_answer(connection, request, preflight(request));
        co_return;
    }
    if (changes_something(request) && !request.origin_allowed) {
        co_await send_answer(connection, request, to_answer(foreign_origin()));
        co_return;
    }
    auto const matched = match(request.method, request.target);
    if (!matched) {
        co_await send_answer(connection, request, no_route(request, matched.error()));
        co_return;
    }
    // The pattern only: ids and bodies are nobody's business.
    log::debug("api", "{} {}", matched->route->method, matched->route->pattern);
    Answer answer;
    switch (matched->route->handler) {
    case Handler::chat_completions:
        co_await handle_chat(connection, request);
        co_return;
    case Handler::place_instance:
        answer = co_await place_instance(connection, request);
        break;
    case Handler::delete_instance:
        answer = co_await delete_instance(connection, matched->parameters.front());
        break;
    case Handler::health:
    case Handler::node_id:
    case Handler::state:
    case Handler::state_part:
    case Handler::network_diagnosis:
    case Handler::models:
    case Handler::model:
    case Handler::get_instance:
        answer = answer_now(connection.context().backend, *matched);
        break;
    }
    co_await send_answer(connection, request, std::move(answer));
}

} // namespace exo::api::http
