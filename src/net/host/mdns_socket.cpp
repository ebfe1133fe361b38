// SPDX-License-Identifier: Apache-2.0
#include "net/host/mdns_socket.hpp"

#include "base/entropy.hpp"
#include "base/log.hpp"
#include "net/interfaces/reach.hpp"
#include "net/interfaces/scan.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <map>
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

// A socket that failed is made anew within this time, and a change of which the Host was not told
// is found.
constexpr Duration scan_interval = 5s;
// Machines with many containers have hundreds of bridges; peers are behind few of them.
constexpr std::size_t links_max = 32;
constexpr int multicast_hops = 255; // RFC 6762 11.

// --- Interfaces ---

// One address family of an interface.
struct LinkInterface {
    std::string name;
    unsigned index = 0;
    bool is_ip4 = true;
    bool is_loopback = false;
    std::vector<std::string> ips;
};

mdns::LinkId link_of(LinkInterface const& interface) {
    return mdns::LinkId(interface.index * 2 + (interface.is_ip4 ? 0 : 1));
}

using LinkInterfaces = std::map<mdns::LinkId, LinkInterface>;

// False if there is no room for it.
bool add_family(LinkInterfaces& found, Interface const& interface, bool is_ip4) {
    LinkInterface link{
        .name = interface.name,
        .index = interface.index,
        .is_ip4 = is_ip4,
        .is_loopback = interface.kind == InterfaceKind::loopback,
    };
    for (auto const& address : interface.addresses) {
        if (address.ip.is_ip4() == is_ip4) {
            link.ips.push_back(address.text);
        }
    }
    if (link.ips.empty()) {
        return true;
    }
    return found.size() < links_max && found.emplace(link_of(link), std::move(link)).second;
}

// Loopback (IPv4) only where there is nothing else, so that nodes of one machine without a network
// still find each other.
LinkInterfaces only_where_needed(LinkInterfaces found) {
    bool const has_network =
        std::ranges::any_of(found, [](auto const& entry) { return !entry.second.is_loopback; });
    std::erase_if(found, [&](auto const& entry) {
        auto const& interface = entry.second;
        return interface.is_loopback && (has_network || !interface.is_ip4);
    });
    return found;
}

// Linux delivers IPv6 multicast of every interface to every socket of the machine that has joined
// the group on any. The sender's zone, or its prefix, tells by which one it came.
bool came_by(
    LinkInterface const& link, udp::endpoint const& from, std::vector<Interface> const& all
) {
    if (link.is_ip4) {
        return true;
    }
    auto const address = from.address().to_v6();
    if (address.scope_id() != 0) {
        return address.scope_id() == link.index;
    }
    auto const ip = Ip::parse(address.to_string());
    auto const* const interface = ip ? on_link(all, *ip) : nullptr;
    return interface == nullptr || interface->index == link.index;
}

// Those where somebody may hear us. Where they exceed the limit, real networks have precedence over
// tunnels, and these over the bridges of containers.
LinkInterfaces usable_of(std::vector<Interface> interfaces, bool& has_left_out) {
    std::erase_if(interfaces, [](Interface const& one) {
        bool const can_multicast = one.has_multicast || one.kind == InterfaceKind::loopback;
        return !one.is_up || !one.is_running || one.is_port || !can_multicast;
    });
    auto const worth = [](Interface const& one) {
        return std::pair(reach_through(one.kind, true), one.index);
    };
    std::ranges::sort(interfaces, {}, worth);
    LinkInterfaces found;
    has_left_out = false;
    for (auto const& interface : interfaces) {
        bool const has_room_4 = add_family(found, interface, true);
        bool const has_room_6 = add_family(found, interface, false);
        has_left_out = has_left_out || !has_room_4 || !has_room_6;
    }
    return only_where_needed(std::move(found));
}

// --- Sockets ---

template <class Option>
Result<void> set(udp::socket& socket, int level, int name, Option const& value, char const* what) {
    if (setsockopt(socket.native_handle(), level, name, &value, sizeof(value)) != 0) {
        return errno_error(what);
    }
    return {};
}

Result<void> set_ip4(udp::socket& socket, LinkInterface const& interface) {
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

Result<void> set_ip6(udp::socket& socket, LinkInterface const& interface) {
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
Result<udp::socket>
open_socket(asio::any_io_executor const& executor, LinkInterface const& interface) {
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

udp::endpoint group_of(LinkInterface const& interface) {
    if (interface.is_ip4) {
        return {asio::ip::make_address_v4(mdns::group_ip4), mdns::port};
    }
    auto group = asio::ip::make_address_v6(mdns::group_ip6);
    group.scope_id(interface.index);
    return {group, mdns::port};
}

struct Link {
    LinkInterface interface;
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
            self->must_scan_ = false;
            while (!self->is_stopped_ && !self->must_scan_ && now() < next_scan) {
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

    void interfaces_changed() {
        must_scan_ = true;
        timer_.cancel();
    }

    void search() {
        discovery_.search(now());
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
        auto const interfaces = scan_interfaces();
        if (!interfaces) {
            log::warning("mdns", "{}", interfaces.error().text());
            return;
        }
        interfaces_ = *interfaces;
        bool has_left_out = false;
        auto usable = usable_of(interfaces_, has_left_out);
        if (has_left_out && !std::exchange(left_out_told_, has_left_out)) {
            log::warning("mdns", "speaks on {} interfaces only; there are more", links_max);
        }
        std::erase_if(links_, [&](auto const& entry) {
            auto const& [id, link] = entry;
            auto const found = usable.find(id);
            bool const is_same = found != usable.end() &&
                                 found->second.name == link->interface.name && !link->failed;
            if (!is_same) {
                close(*link);
                discovery_.link_down(id);
                log::debug("mdns", "{}: left", link->interface.name);
            }
            return !is_same;
        });
        for (auto& [id, interface] : usable) {
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

    bool open_link(std::shared_ptr<Impl> const& self, mdns::LinkId id, LinkInterface& interface) {
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
        if (!came_by(link.interface, from, interfaces_)) {
            return;
        }
        auto const address = from.address().to_string();
        auto const ip = Ip::parse(address);
        mdns::Source const source{
            .ip = address.substr(0, address.find('%')), // The zone is ours to say.
            .zone = link.interface.name,
            .is_this_machine = ip && is_own(interfaces_, *ip),
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
                on_discovered_(*event);
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
    std::vector<Interface> interfaces_; // Of this machine, at the last scan.
    std::set<std::string> refused_; // Interfaces whose socket could not be made; warned of once.
    std::size_t reader_count_ = 0;
    bool left_out_told_ = false;
    bool must_scan_ = false;
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

void MdnsSocket::interfaces_changed() {
    impl_->interfaces_changed();
}

void MdnsSocket::search() {
    impl_->search();
}

} // namespace exo::net
