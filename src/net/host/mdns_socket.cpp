// SPDX-License-Identifier: Apache-2.0
#include "net/host/mdns_socket.hpp"

#include "base/entropy.hpp"
#include "base/log.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <ifaddrs.h>
#include <map>
#include <net/if.h>
#include <netinet/in.h>
#include <set>
#include <string>
#include <sys/socket.h>
#include <utility>

namespace exo::net {
namespace {

namespace asio = boost::asio;
using asio::ip::udp;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);

// A cable is plugged in, a VPN comes up, a laptop wakes: found within this time. A socket that
// failed is made anew then, too.
constexpr Duration scan_interval = 5s;
// Machines with many containers have hundreds of bridges; peers are behind few of them.
constexpr std::size_t links_max = 32;
constexpr int multicast_hops = 255; // RFC 6762 11.

// --- Interfaces ---

// One address family of an interface.
struct Interface {
    std::string name;
    unsigned index = 0;
    bool is_ip4 = true;
    bool is_loopback = false;
    std::vector<std::string> ips;
};

struct Interfaces {
    std::map<mdns::LinkId, Interface> usable;
    std::set<std::string> own_ips; // Of all interfaces.
};

struct FreeInterfaces {
    void operator()(ifaddrs* first) const { freeifaddrs(first); }
};

// Empty for another family.
std::string ip_of(sockaddr const& address) {
    if (address.sa_family == AF_INET) {
        auto const& ip4 = reinterpret_cast<sockaddr_in const&>(address);
        return asio::ip::address_v4(ntohl(ip4.sin_addr.s_addr)).to_string();
    }
    if (address.sa_family == AF_INET6) {
        auto const& ip6 = reinterpret_cast<sockaddr_in6 const&>(address);
        asio::ip::address_v6::bytes_type bytes;
        std::copy_n(std::begin(ip6.sin6_addr.s6_addr), bytes.size(), bytes.begin());
        return asio::ip::address_v6(bytes).to_string();
    }
    return {};
}

mdns::LinkId link_of(Interface const& interface) {
    return mdns::LinkId(interface.index * 2 + (interface.is_ip4 ? 0 : 1));
}

void add_interface(Interfaces& found, ifaddrs const& entry) {
    auto ip = entry.ifa_addr ? ip_of(*entry.ifa_addr) : std::string();
    if (ip.empty() || (entry.ifa_flags & IFF_UP) == 0) {
        return;
    }
    found.own_ips.insert(ip);
    bool const is_loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0;
    if (!is_loopback && (entry.ifa_flags & IFF_MULTICAST) == 0) {
        return;
    }
    Interface interface{
        .name = entry.ifa_name,
        .index = if_nametoindex(entry.ifa_name),
        .is_ip4 = entry.ifa_addr->sa_family == AF_INET,
        .is_loopback = is_loopback,
    };
    if (interface.index == 0) {
        return; // It has just gone.
    }
    auto const id = link_of(interface);
    if (found.usable.size() < links_max || found.usable.contains(id)) {
        found.usable.try_emplace(id, std::move(interface)).first->second.ips.push_back(ip);
    }
}

// Those with multicast; loopback (IPv4) only where there is nothing else, so that nodes of one
// machine without a network still find each other.
Interfaces scan_interfaces() {
    Interfaces found;
    ifaddrs* first = nullptr;
    if (getifaddrs(&first) != 0) {
        log::warning("mdns", "{}", errno_error("cannot list the network interfaces").text());
        return found;
    }
    std::unique_ptr<ifaddrs, FreeInterfaces> const owner(first);
    for (auto const* entry = first; entry; entry = entry->ifa_next) {
        add_interface(found, *entry);
    }
    bool const has_network = std::ranges::any_of(found.usable, [](auto const& entry) {
        return !entry.second.is_loopback;
    });
    std::erase_if(found.usable, [&](auto const& entry) {
        auto const& interface = entry.second;
        return interface.is_loopback && (has_network || !interface.is_ip4);
    });
    return found;
}

// --- Sockets ---

template <class Option>
Result<void> set(udp::socket& socket, int level, int name, Option const& value, char const* what) {
    if (setsockopt(socket.native_handle(), level, name, &value, sizeof(value)) != 0) {
        return errno_error(what);
    }
    return {};
}

Result<void> set_ip4(udp::socket& socket, Interface const& interface) {
    ip_mreqn membership{};
    membership.imr_multiaddr.s_addr = htonl(asio::ip::make_address_v4(mdns::group_ip4).to_uint());
    membership.imr_ifindex = static_cast<int>(interface.index);
#ifdef IP_MULTICAST_ALL // Else Linux delivers what any socket of the machine has joined.
    EXO_TRY(set(socket, IPPROTO_IP, IP_MULTICAST_ALL, 0, "IP_MULTICAST_ALL"));
#endif
    EXO_TRY(set(socket, IPPROTO_IP, IP_MULTICAST_IF, membership, "IP_MULTICAST_IF"));
    EXO_TRY(set(socket, IPPROTO_IP, IP_MULTICAST_TTL, multicast_hops, "IP_MULTICAST_TTL"));
    return set(socket, IPPROTO_IP, IP_ADD_MEMBERSHIP, membership, "IP_ADD_MEMBERSHIP");
}

Result<void> set_ip6(udp::socket& socket, Interface const& interface) {
    ipv6_mreq membership{};
    auto const group = asio::ip::make_address_v6(mdns::group_ip6).to_bytes();
    std::ranges::copy(group, std::begin(membership.ipv6mr_multiaddr.s6_addr));
    membership.ipv6mr_interface = interface.index;
#ifdef IPV6_MULTICAST_ALL
    EXO_TRY(set(socket, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0, "IPV6_MULTICAST_ALL"));
#endif
    EXO_TRY(set(socket, IPPROTO_IPV6, IPV6_MULTICAST_IF, interface.index, "IPV6_MULTICAST_IF"));
    EXO_TRY(set(socket, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, multicast_hops, "IPV6_MULTICAST_HOPS"));
    return set(socket, IPPROTO_IPV6, IPV6_JOIN_GROUP, membership, "IPV6_JOIN_GROUP");
}

// Shares port 5353 with other programs of the machine (Avahi, other nodes).
Result<udp::socket> open_socket(asio::any_io_executor const& executor, Interface const& interface) {
    auto const family = interface.is_ip4 ? udp::v4() : udp::v6();
    boost::system::error_code error;
    udp::socket socket(executor);
    socket.open(family, error);
    if (error) {
        return io_error("open", error);
    }
    if (!interface.is_ip4) {
        EXO_TRY(set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1, "IPV6_V6ONLY"));
    }
    EXO_TRY(set(socket, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR"));
    EXO_TRY(set(socket, SOL_SOCKET, SO_REUSEPORT, 1, "SO_REUSEPORT"));
    EXO_TRY(interface.is_ip4 ? set_ip4(socket, interface) : set_ip6(socket, interface));
    socket.bind(udp::endpoint(family, mdns::port), error);
    if (error) {
        return io_error("bind to port 5353", error);
    }
    socket.non_blocking(true, error);
    return socket;
}

udp::endpoint group_of(Interface const& interface) {
    if (interface.is_ip4) {
        return {asio::ip::make_address_v4(mdns::group_ip4), mdns::port};
    }
    auto group = asio::ip::make_address_v6(mdns::group_ip6);
    group.scope_id(interface.index);
    return {group, mdns::port};
}

struct Link {
    Interface interface;
    udp::socket socket;
    bool failed = false;         // Made anew at the next scan.
    bool has_send_error = false; // Already logged.
};

} // namespace

// Shared with the readers of its links: each ends when its socket is closed.
class MdnsSocket::Impl {
public:
    Impl(
        asio::any_io_executor executor,
        PeerId self,
        std::vector<Multiaddr> listen,
        OnDiscovered on_discovered
    )
        : executor_(std::move(executor))
        , timer_(executor_)
        , discovery_(std::move(self), Random(random_u64()))
        , listen_(std::move(listen))
        , on_discovered_(std::move(on_discovered)) {}

    static asio::awaitable<void> run(std::shared_ptr<Impl> self) {
        while (!self->is_stopped_) {
            auto const next_scan = now() + scan_interval;
            self->scan(self);
            while (!self->is_stopped_ && now() < next_scan) {
                self->discovery_.on_time(now());
                self->deliver();
                self->timer_.expires_at(std::min(self->discovery_.deadline(), next_scan));
                co_await self->timer_.async_wait(as_value);
            }
        }
        for (auto const& [id, link] : self->links_) {
            close(*link);
        }
        while (self->reader_count_ > 0) {
            self->timer_.expires_at(TimePoint::max());
            co_await self->timer_.async_wait(as_value);
        }
    }

    void stop() {
        is_stopped_ = true;
        timer_.cancel();
    }

    void abandon() {
        on_discovered_ = nullptr;
        stop();
    }

private:
    static TimePoint now() { return std::chrono::steady_clock::now(); }

    static void close(Link& link) {
        boost::system::error_code ignored;
        link.socket.close(ignored);
    }

    void scan(std::shared_ptr<Impl> const& self) {
        auto interfaces = scan_interfaces();
        own_ips_ = std::move(interfaces.own_ips);
        std::erase_if(links_, [&](auto const& entry) {
            auto const& [id, link] = entry;
            auto const found = interfaces.usable.find(id);
            bool const is_same = found != interfaces.usable.end() &&
                                 found->second.name == link->interface.name && !link->failed;
            if (!is_same) {
                close(*link);
                discovery_.link_down(id);
                log::debug("mdns", "{}: left", link->interface.name);
            }
            return !is_same;
        });
        for (auto& [id, interface] : interfaces.usable) {
            std::vector<Multiaddr> addresses;
            for (auto const& ip : interface.ips) {
                auto const reachable = mdns::reachable_addresses(listen_, ip);
                addresses.insert(addresses.end(), reachable.begin(), reachable.end());
            }
            if (links_.contains(id) || open_link(self, id, interface)) {
                discovery_.link_up(id, std::move(addresses), now());
            }
        }
    }

    bool open_link(std::shared_ptr<Impl> const& self, mdns::LinkId id, Interface& interface) {
        auto socket = open_socket(executor_, interface);
        if (!socket) {
            // Again at each scan, so only the first time loud.
            if (refused_.insert(interface.name).second) {
                log::warning("mdns", "{}: {}", interface.name, socket.error().text());
            }
            return false;
        }
        refused_.erase(interface.name);
        log::debug("mdns", "{}: joined", interface.name);
        auto link = std::make_shared<Link>(Link{std::move(interface), std::move(*socket)});
        links_[id] = link;
        ++reader_count_;
        asio::co_spawn(executor_, read(self, id, link), [self](std::exception_ptr error) {
            --self->reader_count_;
            if (self->is_stopped_) {
                self->timer_.cancel();
            }
            if (error) {
                std::rethrow_exception(error);
            }
        });
        return true;
    }

    // `link` is shared with links_, which may drop it while we wait.
    static asio::awaitable<void>
    read(std::shared_ptr<Impl> self, mdns::LinkId id, std::shared_ptr<Link> link) {
        std::array<std::uint8_t, mdns::packet_bytes_max> storage;
        auto const buffer = asio::buffer(storage);
        udp::endpoint sender;
        while (link->socket.is_open()) {
            auto const [error, bytes_count] =
                co_await link->socket.async_receive_from(buffer, sender, as_value);
            if (error) {
                link->failed = true;
                break;
            }
            if (!self->is_stopped_) {
                self->on_packet(id, *link, BytesView(storage).first(bytes_count), sender);
            }
        }
    }

    void on_packet(mdns::LinkId id, Link const& link, BytesView packet, udp::endpoint const& from) {
        auto ip = from.address();
        if (ip.is_v6()) { // The zone is ours to say.
            auto unscoped = ip.to_v6();
            unscoped.scope_id(0);
            ip = unscoped;
        }
        mdns::Source const source{
            .ip = ip.to_string(),
            .zone = link.interface.name,
            .is_this_machine = own_ips_.contains(ip.to_string()),
        };
        discovery_.receive(id, packet, source, now());
        deliver();
    }

    // Carries out what the machine has decided.
    void deliver() {
        while (auto packet = discovery_.take_packet()) {
            if (auto const link = links_.find(packet->link); link != links_.end()) {
                send(*link->second, packet->bytes);
            }
        }
        while (auto event = discovery_.next_event()) {
            if (on_discovered_ && !is_stopped_) {
                on_discovered_(event->peer, event->address);
            }
        }
    }

    // A packet that cannot be sent now is lost, as it could be on the network; the next query
    // repeats it.
    static void send(Link& link, BytesView bytes) {
        auto const group = group_of(link.interface);
        auto const buffer = asio::buffer(bytes.data(), bytes.size());
        boost::system::error_code error;
        link.socket.send_to(buffer, group, 0, error);
        if (error && !std::exchange(link.has_send_error, true)) {
            log::info("mdns", "{}: {}", link.interface.name, io_error("send", error).text());
        }
    }

    asio::any_io_executor executor_;
    asio::steady_timer timer_; // Of run(): the next deadline, or the end of a reader.
    mdns::Discovery discovery_;
    std::vector<Multiaddr> listen_;
    OnDiscovered on_discovered_;
    std::map<mdns::LinkId, std::shared_ptr<Link>> links_;
    std::set<std::string> own_ips_;
    std::set<std::string> refused_; // Interfaces whose socket could not be made; warned of once.
    std::size_t reader_count_ = 0;
    bool is_stopped_ = false;
};

MdnsSocket::MdnsSocket(
    asio::any_io_executor executor,
    PeerId self,
    std::vector<Multiaddr> listen,
    OnDiscovered on_discovered
)
    : impl_(std::make_shared<Impl>(
          std::move(executor), std::move(self), std::move(listen), std::move(on_discovered)
      )) {}

MdnsSocket::~MdnsSocket() {
    impl_->abandon();
}

asio::awaitable<void> MdnsSocket::run() {
    return Impl::run(impl_);
}

void MdnsSocket::stop() {
    impl_->stop();
}

} // namespace exo::net
