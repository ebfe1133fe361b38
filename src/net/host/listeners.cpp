// SPDX-License-Identifier: Apache-2.0
#include "net/host/listeners.hpp"

#include "base/log.hpp"
#include "net/host/transport.hpp"
#include "net/interfaces/reach.hpp"
#include "net/mdns/discovery.hpp"

#include <boost/asio/ip/v6_only.hpp>

#include <algorithm>
#include <optional>

namespace exo::net {
namespace {

using Acceptor = asio::ip::tcp::acceptor;

Acceptor bind(
    asio::any_io_executor const& executor,
    Endpoint const& endpoint,
    boost::system::error_code& error
) {
    Acceptor acceptor(executor);
    acceptor.open(endpoint.protocol(), error);
    if (!error) {
        acceptor.set_option(asio::socket_base::reuse_address(true), error);
    }
    if (!error && endpoint.address().is_v6()) {
        acceptor.set_option(asio::ip::v6_only(true), error); // IPv4 has a socket of its own.
    }
    if (!error) {
        acceptor.bind(endpoint, error);
    }
    if (!error) {
        acceptor.listen(asio::socket_base::max_listen_connections, error);
    }
    return acceptor;
}

// The machine has no IPv6 (or no such address), as opposed to a port that is taken.
bool is_missing(boost::system::error_code error) {
    return error == asio::error::address_family_not_supported ||
           error == boost::system::errc::address_not_available;
}

Result<Endpoint> listening_endpoint(Multiaddr const& address) {
    auto const target = address.tcp_target();
    if (!target || (target->host_kind != AddrPart::ip4 && target->host_kind != AddrPart::ip6)) {
        return Error(
            Errc::invalid_argument,
            "cannot listen on '" + address.text() + "': write for example /ip4/0.0.0.0/tcp/0"
        );
    }
    return endpoint_of(*target);
}

bool is_loopback(Multiaddr const& address) {
    auto const ip = ip_of(address);
    return ip && ip->is_loopback();
}

// In the order of their worth to a peer on the link of `own`.
std::vector<InterfaceAddress>
addresses_for(std::span<Interface const> interfaces, Interface const* own) {
    std::vector<InterfaceAddress> first;
    std::vector<InterfaceAddress> later;
    for (auto const& interface : interfaces) {
        bool const is_same_link = own != nullptr && interface.index == own->index;
        for (auto const& address : interface.addresses) {
            bool const is_of_link =
                interface.kind == InterfaceKind::container || address.ip.needs_zone();
            if (interface.is_up && (is_same_link || !is_of_link)) {
                (is_same_link ? first : later).push_back(address);
            }
        }
    }
    first.insert(first.end(), later.begin(), later.end());
    return first;
}

} // namespace

Result<void>
Listeners::open(asio::any_io_executor const& executor, std::vector<Multiaddr> const& addresses) {
    addresses_.clear(); // Of an earlier call, which failed.
    acceptors_.clear();
    std::optional<Error> skipped;
    for (auto const& address : addresses) {
        auto const endpoint = listening_endpoint(address);
        if (!endpoint) {
            close();
            return endpoint.error();
        }
        boost::system::error_code error;
        auto acceptor = bind(executor, *endpoint, error);
        if (!error) {
            addresses_.push_back(address_of(acceptor.local_endpoint()));
            acceptors_.push_back(std::move(acceptor));
            continue;
        }
        skipped = io_error("cannot listen on " + address.text(), error);
        if (!endpoint->address().is_v6() || !is_missing(error)) {
            close();
            return *skipped;
        }
        log::info("net", "without IPv6: {}", skipped->text());
    }
    return acceptors_.empty() && skipped ? Result<void>(*skipped) : Result<void>();
}

void Listeners::close() {
    boost::system::error_code ignored;
    for (auto& acceptor : acceptors_) {
        acceptor.close(ignored);
    }
}

std::vector<Multiaddr>
Listeners::reachable(std::span<Interface const> interfaces, std::string const& local_ip) const {
    auto const local = Ip::parse(local_ip);
    auto addresses = addresses_for(interfaces, local ? owner_of(interfaces, *local) : nullptr);
    auto const own =
        local ? std::ranges::find(addresses, *local, &InterfaceAddress::ip) : addresses.end();
    if (own != addresses.end()) { // The rest keeps its order.
        std::rotate(addresses.begin(), own, own + 1);
    }
    std::vector<Multiaddr> result;
    for (auto const& one : addresses) {
        for (auto const& address : mdns::reachable_addresses(addresses_, one.text)) {
            if (std::ranges::find(result, address) == result.end()) {
                result.push_back(address);
            }
        }
    }
    bool const is_for_here = local && local->is_loopback();
    if (!is_for_here && !std::ranges::all_of(result, is_loopback)) {
        std::erase_if(result, is_loopback);
    }
    return result;
}

} // namespace exo::net
