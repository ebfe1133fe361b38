// SPDX-License-Identifier: Apache-2.0
//
// TCP connections and their upgrade: resolves, connects, and moves the bytes of a Channel until it
// is ready. Both directions give up after HostLimits::upgrade_timeout.
#pragma once

#include "net/host/async.hpp"
#include "net/host/channel.hpp"
#include "net/host/limits.hpp"
#include "net/wire/multiaddr.hpp"

#include <boost/asio/ip/tcp.hpp>

#include <memory>
#include <optional>

namespace exo::net {

using Socket = asio::ip::tcp::socket;
using Endpoint = asio::ip::tcp::endpoint;

// Of the addresses that one name has.
constexpr std::size_t resolved_max = 8;

// A connection whose peer is known.
struct Upgraded {
    Socket socket;
    std::unique_ptr<Channel> channel;
    Direction direction;
    Multiaddr remote; // Without /p2p.
};

class Transport {
public:
    // One static Noise key for the life of the process, as in rust and js.
    Transport(
        asio::any_io_executor executor,
        Identity const& identity,
        std::optional<Psk> psk,
        HostLimits const& limits
    );

    // For the handshakes that begin from now on.
    void set_psk(std::optional<Psk> psk) { psk_ = psk; }

    // Errors: io, timed_out (nobody answers there); those of upgrade().
    asio::awaitable<Result<Socket>> connect(TcpTarget target);

    // The handshake on an open connection. Errors: protocol, io, timed_out.
    asio::awaitable<Result<Upgraded>>
    upgrade(Socket socket, Direction direction, std::optional<PeerId> expected);

private:
    asio::awaitable<Result<void>> negotiate(Socket& socket, Channel& channel);
    asio::awaitable<Result<std::vector<Endpoint>>> endpoints(TcpTarget target);
    asio::awaitable<Result<Socket>> connect_any(TcpTarget target);
    asio::awaitable<Result<std::vector<Endpoint>>> resolve(TcpTarget target);

    asio::any_io_executor executor_;
    Identity const& identity_; // The Host's.
    std::optional<Psk> psk_;
    HostLimits limits_;
    noise::Key static_key_;
};

// The address of the other end; "%zone" and all. Empty if the socket is not connected any more.
[[nodiscard]] Multiaddr address_of(Endpoint const& endpoint);

// The endpoint of a target with an IP address. Error: invalid_argument, for an unknown zone.
[[nodiscard]] Result<Endpoint> endpoint_of(TcpTarget const& target);

} // namespace exo::net
