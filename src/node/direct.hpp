// SPDX-License-Identifier: Apache-2.0
//
// One question, one answer, on a direct stream of its own.
#pragma once

#include "net/host/host.hpp"
#include "node/scope.hpp"

#include <string>

namespace exo::node {

// Errors: those of open_stream and the stream; timed_out after `limit`.
asio::awaitable<Result<Bytes>>
ask(net::Host& host,
    net::PeerId peer,
    std::string protocol,
    Bytes question,
    std::size_t answer_bytes_max,
    Duration limit);

} // namespace exo::node
