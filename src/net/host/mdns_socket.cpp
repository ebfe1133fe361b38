// SPDX-License-Identifier: Apache-2.0
#include "net/host/mdns_socket.hpp"

#include "base/entropy.hpp"
#include "base/log.hpp"
#include "net/diagnosis/link_log.hpp"
#include "net/host/async.hpp"
#include "net/interfaces/reach.hpp"
#include "net/interfaces/scan.hpp"
#include "net/mdns/links.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/udp.hpp>

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

using asio::ip::udp;

// A socket that failed is made anew within this time, and a change of which the Host was not told
// is found.
constexpr Duration scan_interval = 5s;
constexpr int multicast_hops = 255; // RFC 6762 11.
// RFC 6763 9: every responder answers it with the kinds of services that it has.
constexpr char const* all_services = "_services._dns-sd._udp.local";

template <class Option>
Result<void> set(udp::socket& socket, int level, int name, Option const& value, char const* what) {
    if (setsockopt(socket.native_handle(), level, name, &value, sizeof(value)) != 0) {
        return errno_error(what);
    }
    return {};
}

Result<void> set_ip4(udp::socket& socket, mdns::Link const& interface) {
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

Result<void> set_ip6(udp::socket& socket, mdns::Link const& interface) {
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
open_socket(asio::any_io_executor const& executor, mdns::Link const& interface) {
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

udp::endpoint group_of(mdns::Link const& interface) {
    if (interface.is_ip4) {
        return {asio::ip::make_address_v4(mdns::group_ip4), mdns::port};
    }
    auto group = asio::ip::make_address_v6(mdns::group_ip6);
    group.scope_id(interface.index);
    return {group, mdns::port};
}

struct Link {
    mdns::Link interface;
    udp::socket socket;
    bool failed = false;         // Made anew at the next scan.
    bool has_send_error = false; // Already logged.
};

LinkLog log_of(mdns::Link const& interface, TimePoint now) {
    return LinkLog({
        .interface = interface.name,
        .kind = interface.kind,
        .is_ip4 = interface.is_ip4,
        .addresses = interface.addresses,
        .since = now,
    });
}

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
        self->close_all();
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

    void ask_everybody() {
        mdns::Packet packet;
        packet.questions.push_back({.name = mdns::Name::of(all_services)});
        auto const bytes = mdns::encode(packet);
        for (auto const& [id, link] : links_) {
            send(id, *link, bytes);
        }
    }

    void tell(NetworkFacts& facts) const {
        facts.links.clear();
        for (auto const& [id, log] : logs_) {
            facts.links.push_back(log.facts());
        }
        facts.links_left_out = left_out_;
    }

    void abandon() {
        on_discovered_ = nullptr;
        stop();
        close_all(); // run() may have been cancelled.
    }

private:
    static void close(Link& link) {
        boost::system::error_code ignored;
        link.socket.close(ignored);
    }

    void close_all() {
        for (auto const& [id, link] : links_) {
            close(*link);
        }
    }

    void scan(std::shared_ptr<Impl> const& self) {
        auto const interfaces = scan_interfaces();
        if (!interfaces) {
            log::warning("mdns", "{}", interfaces.error().text());
            return;
        }
        interfaces_ = *interfaces;
        auto [usable, left_out] = mdns::choose_links(interfaces_);
        if (std::exchange(left_out_, left_out) == 0 && left_out > 0) {
            log::warning(
                "mdns", "speaks on {} links only; {} are left out", mdns::links_max, left_out
            );
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
        keep_logs(usable);
        for (auto& [id, interface] : usable) {
            std::vector<Multiaddr> addresses;
            for (auto const& own : interface.addresses) {
                auto const reachable = mdns::reachable_addresses(listen_, own.text);
                addresses.insert(addresses.end(), reachable.begin(), reachable.end());
            }
            if (links_.contains(id) || open_link(self, id, interface)) {
                discovery_.link_up(id, std::move(addresses), now());
            }
        }
    }

    // One for each interface that is there, whether or not its socket could be made.
    void keep_logs(std::map<mdns::LinkId, mdns::Link> const& usable) {
        std::erase_if(logs_, [&](auto const& entry) {
            auto const found = usable.find(entry.first);
            return found == usable.end() || found->second.name != entry.second.facts().interface;
        });
        for (auto const& [id, interface] : usable) {
            auto& log = logs_.try_emplace(id, log_of(interface, now())).first->second;
            log.set_addresses(interface.addresses);
        }
    }

    bool open_link(std::shared_ptr<Impl> const& self, mdns::LinkId id, mdns::Link& interface) {
        auto socket = open_socket(executor_, interface);
        if (!socket) {
            logs_.at(id).set_error(socket.error().text());
            // Again at each scan, so only the first time loud.
            if (refused_.insert(interface.name).second) {
                log::warning("mdns", "{}: {}", interface.name, socket.error().text());
            }
            return false;
        }
        logs_.at(id).set_error("");
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
        auto const address = from.address().to_string();
        auto const ip = Ip::parse(address);
        auto const zone = from.address().is_v6() ? from.address().to_v6().scope_id() : 0;
        if (!ip || !came_by(link.interface, *ip, static_cast<unsigned>(zone), interfaces_)) {
            return;
        }
        mdns::Source const source{
            .ip = address.substr(0, address.find('%')), // The zone is ours to say.
            .zone = link.interface.name,
            .is_this_machine = is_own(interfaces_, *ip),
        };
        if (auto const log = logs_.find(id); log != logs_.end()) {
            log->second.received(packet, source.ip, source.is_this_machine, now());
        }
        discovery_.receive(id, packet, source, now());
        deliver();
    }

    // Carries out what the machine has decided.
    void deliver() {
        while (auto packet = discovery_.take_packet()) {
            if (auto const link = links_.find(packet->link); link != links_.end()) {
                send(packet->link, *link->second, packet->bytes);
            }
        }
        while (auto const twin = discovery_.next_twin()) {
            auto const log = logs_.find(twin->link);
            if (log != logs_.end() && log->second.met_twin(twin->address, now())) {
                auto const place = twin->address.text();
                log::error("net", "the node at {} has this node's key: see exo doctor", place);
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
    void send(mdns::LinkId id, Link& link, BytesView bytes) {
        auto const group = group_of(link.interface);
        auto const buffer = asio::buffer(bytes.data(), bytes.size());
        auto& log = logs_.at(id);
        boost::system::error_code error;
        link.socket.send_to(buffer, group, 0, error);
        if (!error) {
            log.sent(bytes);
            log.set_error("");
            return;
        }
        auto text = io_error("send", error).text();
        if (!std::exchange(link.has_send_error, true)) {
            log::info("mdns", "{}: {}", link.interface.name, text);
        }
        log.set_error(std::move(text));
    }

    asio::any_io_executor executor_;
    asio::steady_timer timer_; // Of run(): the next deadline, or the end of a reader.
    mdns::Discovery discovery_;
    std::vector<Multiaddr> listen_;
    OnDiscovered on_discovered_;
    std::map<mdns::LinkId, std::shared_ptr<Link>> links_;
    std::map<mdns::LinkId, LinkLog> logs_; // Of each link, and of those that could not be made.
    std::vector<Interface> interfaces_;    // Of this machine, at the last scan.
    std::set<std::string> refused_; // Interfaces whose socket could not be made; warned of once.
    std::size_t reader_count_ = 0;
    std::size_t left_out_ = 0; // Links that are one too many.
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

void MdnsSocket::ask_everybody() {
    impl_->ask_everybody();
}

void MdnsSocket::tell(NetworkFacts& facts) const {
    impl_->tell(facts);
}

void MdnsSocket::interfaces_changed() {
    impl_->interfaces_changed();
}

void MdnsSocket::search() {
    impl_->search();
}

} // namespace exo::net
