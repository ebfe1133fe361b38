// SPDX-License-Identifier: Apache-2.0
#include "net/host/transport.hpp"

#include "base/assert.hpp"
#include "base/entropy.hpp"
#include "net/host/connect_first.hpp"

#include <boost/asio/write.hpp>
#include <fmt/format.h>

#include <net/if.h>

namespace exo::net {
namespace {

constexpr std::size_t read_bytes = 16 * 1024;

bool wants(AddrPart kind, asio::ip::address const& address) {
    return kind == AddrPart::dns || address.is_v4() == (kind == AddrPart::dns4);
}

std::string name_of(TcpTarget const& target) {
    return fmt::format("{}:{}", target.host, target.port);
}

// What a running resolution and its coroutine share: the system's resolver cannot be interrupted,
// so the coroutine may be gone when it answers.
struct Resolution {
    explicit Resolution(asio::any_io_executor const& executor)
        : resolver(executor)
        , done(executor) {}

    asio::ip::tcp::resolver resolver;
    Signal done;
    bool is_done = false;
    boost::system::error_code error;
    std::vector<Endpoint> endpoints;
};

} // namespace

Multiaddr address_of(Endpoint const& endpoint) {
    auto const address = Multiaddr::tcp(endpoint.address().to_string(), endpoint.port());
    EXO_ASSERT(address.has_value()); // Asio writes addresses as inet_ntop does.
    return *address;
}

Result<Endpoint> endpoint_of(TcpTarget const& target) {
    boost::system::error_code error;
    auto address = asio::ip::make_address(target.host, error);
    if (error) {
        return io_error(target.host, error);
    }
    if (!target.zone.empty()) {
        auto const index = ::if_nametoindex(target.zone.c_str());
        if (index == 0) {
            return Error(
                Errc::invalid_argument, fmt::format("there is no interface '{}'", target.zone)
            );
        }
        auto v6 = address.to_v6();
        v6.scope_id(index);
        address = v6;
    }
    return Endpoint(address, target.port);
}

Transport::Transport(
    asio::any_io_executor executor,
    Identity const& identity,
    std::optional<Psk> psk,
    HostLimits const& limits
)
    : executor_(std::move(executor))
    , identity_(identity)
    , psk_(psk)
    , limits_(limits)
    , static_key_{} {
    fill_random(static_key_);
}

asio::awaitable<Result<std::vector<Endpoint>>> Transport::resolve(TcpTarget target) {
    auto const resolution = std::make_shared<Resolution>(executor_);
    auto const kind = target.host_kind;
    auto on_answer = [resolution, kind](boost::system::error_code error, auto const& found) {
        resolution->error = error;
        for (auto const& entry : found) {
            if (resolution->endpoints.size() < resolved_max &&
                wants(kind, entry.endpoint().address())) {
                resolution->endpoints.push_back(entry.endpoint());
            }
        }
        resolution->is_done = true;
        resolution->done.notify();
    };
    resolution->resolver.async_resolve(
        target.host, std::to_string(target.port), std::move(on_answer)
    );
    while (!resolution->is_done) {
        co_await resolution->done.wait();
    }
    if (resolution->error) {
        co_return io_error("cannot resolve " + target.host, resolution->error);
    }
    if (resolution->endpoints.empty()) {
        co_return Error(Errc::io, "no address of the wanted kind for " + target.host);
    }
    co_return std::move(resolution->endpoints);
}

asio::awaitable<Result<std::vector<Endpoint>>> Transport::endpoints(TcpTarget target) {
    if (target.host_kind != AddrPart::ip4 && target.host_kind != AddrPart::ip6) {
        co_return co_await resolve(target);
    }
    auto const endpoint = endpoint_of(target);
    if (!endpoint) {
        co_return endpoint.error();
    }
    co_return std::vector<Endpoint>(1, *endpoint);
}

asio::awaitable<Result<Socket>> Transport::connect_any(TcpTarget target) {
    auto const found = co_await endpoints(target);
    if (!found) {
        co_return found.error();
    }
    co_return co_await connect_first(executor_, *found, limits_.connect_timeout);
}

asio::awaitable<Result<Socket>> Transport::connect(TcpTarget target) {
    auto socket = co_await before(now() + limits_.upgrade_timeout, connect_any(target));
    if (!socket) {
        co_return Error(Errc::timed_out, "no answer from " + name_of(target));
    }
    co_return std::move(*socket);
}

asio::awaitable<Result<void>> Transport::negotiate(Socket& socket, Channel& channel) {
    Bytes buffer(read_bytes);
    while (true) {
        auto const output = channel.take_output();
        auto const [write_error, written] =
            co_await asio::async_write(socket, asio::buffer(output), as_value);
        if (write_error) {
            co_return io_error("connection lost in the handshake", write_error);
        }
        if (channel.ready()) {
            co_return Result<void>();
        }
        auto const [error, count] = co_await socket.async_read_some(asio::buffer(buffer), as_value);
        if (error) {
            co_return io_error("connection lost in the handshake", error);
        }
        auto const result = channel.receive(std::span(buffer).first(count));
        if (!result) {
            co_return result.error();
        }
    }
}

asio::awaitable<Result<Upgraded>>
Transport::upgrade(Socket socket, Direction direction, std::optional<PeerId> expected) {
    boost::system::error_code error;
    socket.set_option(asio::ip::tcp::no_delay(true), error);
    auto const endpoint = socket.remote_endpoint(error);
    if (error) {
        co_return io_error("connection lost in the handshake", error);
    }
    ChannelSecrets secrets;
    fill_random(secrets.nonce);
    fill_random(secrets.noise.ephemeral_key);
    secrets.noise.static_key = static_key_;
    auto channel =
        std::make_unique<Channel>(direction, psk_, identity_, secrets, std::move(expected));
    auto const result =
        co_await before(now() + limits_.upgrade_timeout, negotiate(socket, *channel));
    if (!result) {
        co_return Error(
            Errc::timed_out,
            fmt::format(
                "no handshake within {} s (another namespace?)", seconds_of(limits_.upgrade_timeout)
            )
        );
    }
    if (!*result) {
        co_return result->error();
    }
    Upgraded upgraded{std::move(socket), std::move(channel), direction, address_of(endpoint)};
    co_return std::move(upgraded);
}

} // namespace exo::net
