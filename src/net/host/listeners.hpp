// SPDX-License-Identifier: Apache-2.0
//
// The listening sockets of the Host and the addresses at which they can be reached.
#pragma once

#include "net/host/async.hpp"
#include "net/wire/multiaddr.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <vector>

namespace exo::net {

class Listeners {
public:
    // Binds all of them. A machine without IPv6 leaves out its IPv6 addresses, unless there is no
    // other. Errors: io, naming address and port; invalid_argument.
    [[nodiscard]] Result<void>
    open(asio::any_io_executor const& executor, std::vector<Multiaddr> const& addresses);

    void close();

    [[nodiscard]] std::vector<asio::ip::tcp::acceptor>& acceptors() { return acceptors_; }

    // As bound, with the real ports.
    [[nodiscard]] std::vector<Multiaddr> const& addresses() const { return addresses_; }

    // Those on all interfaces replaced by the addresses of this machine's interfaces: for others to
    // dial. Loopback ones only if there is nothing else.
    [[nodiscard]] std::vector<Multiaddr> reachable() const;

private:
    std::vector<asio::ip::tcp::acceptor> acceptors_;
    std::vector<Multiaddr> addresses_;
};

} // namespace exo::net
