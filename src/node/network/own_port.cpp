// SPDX-License-Identifier: Apache-2.0
#include "node/network/own_port.hpp"

#include "base/entropy.hpp"
#include "net/cluster_token/cluster_token.hpp"
#include "node/interfaces.hpp"
#include "storage/files/files.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <fmt/format.h>

#include <charconv>

namespace exo::node {
namespace {

namespace asio = boost::asio;

constexpr std::size_t file_bytes_max = 16;

bool can_bind(asio::io_context& context, asio::ip::tcp::endpoint const& endpoint) {
    boost::system::error_code error;
    asio::ip::tcp::acceptor acceptor(context);
    acceptor.open(endpoint.protocol(), error);
    if (error) {
        return true; // No such family on this machine: nobody else has the port either.
    }
    acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (endpoint.protocol() == asio::ip::tcp::v6()) {
        acceptor.set_option(asio::ip::v6_only(true), error);
    }
    acceptor.bind(endpoint, error);
    if (!error) {
        acceptor.listen(1, error); // Only this finds who else listens there, on some systems.
    }
    return error != asio::error::address_in_use;
}

bool is_free(std::uint16_t port) {
    asio::io_context context;
    return can_bind(context, {asio::ip::tcp::v4(), port}) &&
           can_bind(context, {asio::ip::tcp::v6(), port});
}

} // namespace

std::optional<std::uint16_t> kept_port(std::filesystem::path const& file) {
    auto const bytes = storage::read_file(file, file_bytes_max);
    if (!bytes) {
        return std::nullopt;
    }
    auto const text = as_text(*bytes);
    std::uint16_t port = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    bool const whole = end == text.data() + text.size() || *end == '\n';
    return error == std::errc() && whole && port != 0 ? std::optional(port) : std::nullopt;
}

Result<> keep_port(std::filesystem::path const& file, std::uint16_t port) {
    return storage::atomic_write(file, as_bytes(fmt::format("{}\n", port)), 0600);
}

std::vector<std::uint16_t> ports_to_try(std::optional<std::uint16_t> kept, Random random) {
    std::vector<std::uint16_t> ports;
    if (kept) {
        ports.push_back(*kept);
    }
    while (ports.size() < own_port_tries) {
        auto const offset = random.below(own_port_last - own_port_first + 1);
        ports.push_back(static_cast<std::uint16_t>(own_port_first + offset));
    }
    return ports;
}

Result<std::uint16_t> reserve_port(std::filesystem::path const& file) {
    if (auto const kept = kept_port(file)) {
        return *kept; // Taken, most likely, by the node itself, which runs.
    }
    for (auto const port : ports_to_try(std::nullopt, Random(random_u64()))) {
        if (is_free(port)) {
            EXO_TRY(keep_port(file, port));
            return port;
        }
    }
    return Error(
        Errc::unavailable,
        fmt::format(
            "found no free port between {} and {}: start exo with --libp2p-port first",
            own_port_first,
            own_port_last
        )
    );
}

std::vector<net::Multiaddr> own_addresses(std::uint16_t port) {
    return addresses_to_tell(network_interfaces(), port);
}

std::vector<net::Multiaddr>
addresses_to_tell(std::vector<model::NetworkInterface> const& interfaces, std::uint16_t port) {
    std::vector<net::Multiaddr> addresses;
    for (auto const& interface : interfaces) {
        auto const address = net::Multiaddr::tcp(interface.ip_address, port);
        if (address && addresses.size() < net::token_addresses_max) {
            addresses.push_back(*address);
        }
    }
    if (addresses.empty()) {
        addresses.push_back(net::Multiaddr::tcp("127.0.0.1", port).value());
    }
    return addresses;
}

} // namespace exo::node
