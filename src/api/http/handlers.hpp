// SPDX-License-Identifier: Apache-2.0
//
// From a request to its answer. Decisions are in the pure folders (openai, exo, route, origin);
// here they are joined with the Backend and the connection.
#pragma once

#include "api/http/connection.hpp"

#include <boost/asio/awaitable.hpp>

namespace exo::api::http {

// Answers one request. Both references outlive the call.
boost::asio::awaitable<void> handle(Connection& connection, Request const& request);

// Sends a whole answer.
boost::asio::awaitable<void>
send_answer(Connection& connection, Request const& request, Answer answer);

// POST /v1/chat/completions (chat.cpp)
boost::asio::awaitable<void> handle_chat(Connection& connection, Request const& request);

} // namespace exo::api::http
