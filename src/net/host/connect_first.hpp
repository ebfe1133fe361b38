// SPDX-License-Identifier: Apache-2.0
//
// Connects to the first of several endpoints that answers (RFC 8305): one begins each `stagger`, or
// as soon as one before it has failed; IPv4 and IPv6 take turns. For the addresses of one name.
#pragma once

#include "net/host/async.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <vector>

namespace exo::net {

constexpr Duration connect_stagger = 250ms;

// Each try takes `limit` at most. The order stays but for the families' turns. Errors: io (of the
// last one that failed), timed_out.
asio::awaitable<Result<asio::ip::tcp::socket>> connect_first(
    asio::any_io_executor executor, std::vector<asio::ip::tcp::endpoint> endpoints, Duration limit
);

// The first one stays first.
[[nodiscard]] std::vector<asio::ip::tcp::endpoint>
in_turns(std::vector<asio::ip::tcp::endpoint> const& endpoints);

} // namespace exo::net
