// SPDX-License-Identifier: Apache-2.0
#include "net/host/listeners.hpp"

#include "base/log.hpp"
#include "net/host/transport.hpp"
#include "net/mdns/discovery.hpp"

#include <boost/asio/ip/v6_only.hpp>

#include <algorithm>
#include <array>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
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
    auto const host = address.tcp_target()->host;
    return host.starts_with("127.") || host == "::1";
}

// The IP addresses of interfaces that are up, in text.
std::vector<std::string> interface_addresses() {
    ifaddrs* list = nullptr;
    std::vector<std::string> result;
    if (::getifaddrs(&list) != 0) {
        return result;
    }
    for (auto const* one = list; one != nullptr; one = one->ifa_next) {
        bool const usable = one->ifa_addr != nullptr && (one->ifa_flags & IFF_UP) != 0;
        auto const family = usable ? one->ifa_addr->sa_family : AF_UNSPEC;
        if (family != AF_INET && family != AF_INET6) {
            continue;
        }
        auto const length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
        std::array<char, NI_MAXHOST> text{};
        auto const failed = ::getnameinfo(
            one->ifa_addr,
            static_cast<socklen_t>(length),
            text.data(),
            text.size(),
            nullptr,
            0,
            NI_NUMERICHOST
        );
        // A link-local address with a zone of ours means nothing to others.
        std::string address = failed == 0 ? text.data() : "";
        if (!address.empty() && address.find('%') == std::string::npos) {
            result.push_back(std::move(address));
        }
    }
    ::freeifaddrs(list);
    return result;
}

} // namespace

Result<void>
Listeners::open(asio::any_io_executor const& executor, std::vector<Multiaddr> const& addresses) {
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

std::vector<Multiaddr> Listeners::reachable() const {
    std::vector<Multiaddr> result;
    for (auto const& ip : interface_addresses()) {
        for (auto const& address : mdns::reachable_addresses(addresses_, ip)) {
            if (std::ranges::find(result, address) == result.end()) {
                result.push_back(address);
            }
        }
    }
    if (!std::ranges::all_of(result, is_loopback)) {
        std::erase_if(result, is_loopback);
    }
    return result;
}

} // namespace exo::net
