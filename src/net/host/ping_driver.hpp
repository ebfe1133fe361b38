// SPDX-License-Identifier: Apache-2.0
//
// Ping on a connection: asks until the connection ends, and answers.
#pragma once

#include "net/host/negotiate.hpp"
#include "net/ping/ping.hpp"

#include <memory>

namespace exo::net {

// Closes the connection when the peer does not answer.
asio::awaitable<void> ask_for_life(std::shared_ptr<Connection> connection, ping::Timing timing);

// Echoes until the peer ends the stream.
asio::awaitable<void> answer_pings(std::unique_ptr<MuxStream> stream);

} // namespace exo::net
