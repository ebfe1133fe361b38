// SPDX-License-Identifier: Apache-2.0
//
// Peers that are no hosts: those who know nothing, and those who know the handshake only.
#pragma once

#include "host_fixture.hpp"
#include "net/host/negotiate.hpp"
#include "net/host/transport.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

namespace exo::net::test {

class Stranger {
public:
    Stranger(asio::io_context& io, Multiaddr const& address)
        : Stranger(io, address, "127.0.0.1") {}

    // Comes from an address of its own: all of 127/8 is ours.
    Stranger(asio::io_context& io, Multiaddr const& address, std::string const& own_ip)
        : socket_(io) {
        socket_.open(asio::ip::tcp::v4());
        socket_.bind(Endpoint(asio::ip::make_address(own_ip), 0));
        socket_.connect(endpoint_of(*address.tcp_target()).value());
    }

    // False if the host has closed the connection.
    bool say(BytesView bytes) {
        boost::system::error_code error;
        asio::write(socket_, asio::buffer(bytes.data(), bytes.size()), error);
        return !error;
    }

    // Reads until the host closes.
    void await_end() {
        socket_.async_read_some(asio::buffer(buffer_), [this](auto error, std::size_t) {
            if (error) {
                ended_ = true;
            } else {
                await_end();
            }
        });
    }

    [[nodiscard]] bool ended() const { return ended_; }

private:
    Socket socket_;
    std::array<std::uint8_t, 4096> buffer_{};
    bool ended_ = false;
};

// A peer that speaks the handshake and yamux but no protocol above: its streams are not negotiated,
// and nobody reads what it gets.
class BarePeer {
public:
    BarePeer(asio::io_context& io, Upgraded upgraded, HostLimits const& limits)
        : connection_(std::make_shared<Connection>(
              std::move(upgraded),
              limits,
              [this](std::unique_ptr<MuxStream> stream) { theirs_.push_back(std::move(stream)); }
          )) {
        asio::co_spawn(io, connection_->run(), [this](std::exception_ptr, Error const&) {
            ended_ = true;
        });
    }

    [[nodiscard]] std::shared_ptr<Connection> const& connection() const { return connection_; }

    [[nodiscard]] bool ended() const { return ended_; }

private:
    std::vector<std::unique_ptr<MuxStream>> theirs_; // Opened by the host.
    std::shared_ptr<Connection> connection_;
    bool ended_ = false;
};

// A connection with the host at `address`, up to the muxer. `options` outlive it.
inline asio::awaitable<Result<Upgraded>>
shake_hands(asio::io_context& io, HostOptions options, Multiaddr address) {
    Transport transport(io.get_executor(), options.identity, options.psk, options.limits);
    auto socket = co_await transport.connect(*address.tcp_target());
    if (!socket) {
        co_return socket.error();
    }
    auto upgraded =
        co_await transport.upgrade(std::move(*socket), Direction::outbound, address.peer());
    co_return std::move(upgraded);
}

} // namespace exo::net::test
