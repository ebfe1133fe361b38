// SPDX-License-Identifier: Apache-2.0
//
// Which protocol a new substream speaks: multistream-select V1, both sides. Both give up after
// HostLimits::negotiation_timeout.
#pragma once

#include "net/host/connection.hpp"

#include <memory>
#include <string>
#include <vector>

namespace exo::net {

struct OpenedStream {
    std::unique_ptr<MuxStream> stream;
    std::string protocol;
};

// A new stream that speaks the first of `protocols` that the peer knows. Errors: unavailable or
// limit (no stream to be had), unsupported, protocol, io, timed_out.
asio::awaitable<Result<OpenedStream>>
open_negotiated(std::shared_ptr<Connection> connection, std::vector<std::string> protocols);

// Lets the peer choose one of `protocols`. Errors: protocol, limit, io, timed_out.
asio::awaitable<Result<std::string>>
accept_negotiated(MuxStream& stream, std::vector<std::string> protocols);

} // namespace exo::net
