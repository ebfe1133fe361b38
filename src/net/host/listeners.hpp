// SPDX-License-Identifier: Apache-2.0
//
// The listening sockets of the Host and the addresses at which they can be reached.
#pragma once

#include "net/host/async.hpp"
#include "net/interfaces/interface.hpp"
#include "net/wire/multiaddr.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <span>
#include <string>
#include <vector>

namespace exo::net {

class Listeners {
public:
    // Binds all of them. A machine without IPv6 leaves out its IPv6 addresses, unless there is no
    // other. Errors: io, naming address and port; invalid_argument. Again only after an error.
    [[nodiscard]] Result<void>
    open(asio::any_io_executor const& executor, std::vector<Multiaddr> const& addresses);

    void close();

    [[nodiscard]] std::vector<asio::ip::tcp::acceptor>& acceptors() { return acceptors_; }

    // As bound, with the real ports.
    [[nodiscard]] std::vector<Multiaddr> const& addresses() const { return addresses_; }

    // For a peer to dial, whom we talk to from our address `local_ip`: that one first, then those
    // of other interfaces. A container's bridge and link-local IPv6 only where the peer is on that
    // very link; loopback only for peers of this machine, or if there is nothing else.
    [[nodiscard]] std::vector<Multiaddr>
    reachable(std::span<Interface const> interfaces, std::string const& local_ip) const;

private:
    std::vector<asio::ip::tcp::acceptor> acceptors_;
    std::vector<Multiaddr> addresses_;
};

} // namespace exo::net
