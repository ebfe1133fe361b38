// SPDX-License-Identifier: Apache-2.0
//
// How the Host finds and dials its peers, and follows the interfaces of this machine.
#include "base/log.hpp"
#include "net/host/host_impl.hpp"
#include "net/host/isolation.hpp"
#include "net/interfaces/scan.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace exo::net {
namespace {

// Both ends of a connection with ourselves are here; the other one is upgraded within this time.
constexpr Duration echo_wait = 1s;
// With all connections in use nothing is dialled; one that ends is noticed within this time.
constexpr Duration full_wait = 1s;

} // namespace

// --- Dialling ---

asio::awaitable<void> Host::Impl::dial_all() {
    while (true) {
        bool const is_full = peers_.connection_count() >= options_.limits.connections_max;
        if (!is_full) {
            for (auto const& dial : book_.take_due(now())) {
                spawn(dial_one(dial));
            }
        }
        auto const deadline = std::max(book_.deadline(), now() + (is_full ? full_wait : 10ms));
        co_await book_changed_.wait_until(deadline);
    }
}

asio::awaitable<void> Host::Impl::dial_one(DialBook::Dial dial) {
    auto const arrivals_before = own_arrivals_;
    auto upgraded = co_await reach(dial);
    if (!upgraded) {
        on_dial_failed(dial, upgraded.error());
    } else if (upgraded->channel->peer() == id()) {
        // Its end stays open until the other end has arrived, if that is ours too.
        co_await pause_until(now() + echo_wait);
        on_met_ourselves(dial, own_arrivals_ != arrivals_before);
    } else {
        auto const peer = upgraded->channel->peer();
        book_.succeeded(dial.address, peer, now());
        // Where a name has led to.
        learn(
            upgraded->remote.with_peer(peer),
            {.origin = DialBook::Origin::heard, .of_this_machine = is_local(upgraded->remote)}
        );
        adopt(std::move(*upgraded));
    }
    book_changed_.notify();
}

// A peer of another network may be silent until the deadline: going there ourselves ends the wait.
asio::awaitable<Result<Upgraded>> Host::Impl::reach(DialBook::Dial dial) {
    using namespace asio::experimental::awaitable_operators;
    auto const network = network_;
    auto first = co_await (connect_and_upgrade(dial) || network_changed_.wait());
    if (first.index() != 0 || network != network_) {
        co_return Error(Errc::conflict, "this node went to another network meanwhile");
    }
    co_return std::move(std::get<0>(first));
}

asio::awaitable<Result<Upgraded>> Host::Impl::connect_and_upgrade(DialBook::Dial dial) {
    auto socket = co_await transport_.connect(*dial.address.tcp_target());
    if (!socket) {
        co_return socket.error();
    }
    if (!book_.is_wanted(dial.address)) {
        co_return Error(Errc::conflict, "another address of the peer was faster");
    }
    auto upgraded =
        co_await transport_.upgrade(std::move(*socket), Direction::outbound, dial.expected);
    if (!upgraded) {
        ++counters_.handshakes_failed;
    }
    co_return std::move(upgraded);
}

void Host::Impl::on_dial_failed(DialBook::Dial const& dial, Error const& error) {
    log::debug("net", "cannot reach {}: {}", dial.address.text(), error.text());
    if (error.code() == Errc::conflict) {
        book_.given_up(dial.address);
    } else if (error.code() == Errc::not_found && dial.expected) {
        book_.was_someone_else(dial.address, error.text(), now());
    } else {
        book_.failed(dial.address, error.text(), now());
    }
}

// B078: a home folder that was copied brings its key along. Two nodes with one key take each other
// for themselves.
void Host::Impl::on_met_ourselves(DialBook::Dial const& dial, bool is_this_process) {
    if (is_this_process) {
        book_.was_ourselves(dial.address, now());
        return;
    }
    auto text = fmt::format(
        "another node at {} has the identity of this one, {}: its files were copied. Stop one of "
        "the two, remove its node_id.keypair, and start it again: it makes a new identity",
        dial.address.text(),
        id().text()
    );
    if (twins_told_.insert(dial.address).second) {
        log::error("net", "{}", text);
    }
    book_.failed(dial.address, std::move(text), now());
}

void Host::Impl::dial(Multiaddr const& address) {
    learn(address, {.origin = DialBook::Origin::heard, .of_this_machine = true});
}

// --- Addresses ---

void Host::Impl::learn(Multiaddr const& address, DialBook::Found found) {
    auto const target = address.tcp_target();
    if (!target || (found.origin != DialBook::Origin::given && listens_at(*target))) {
        return;
    }
    found.reach = reach_of(address);
    book_.add(address, found, now());
    book_changed_.notify();
    if (auto const peer = address.peer(); peer && peers_.contains(*peer)) {
        update_contact(*peer);
    }
}

Reach Host::Impl::reach_of(Multiaddr const& address) const {
    auto const target = address.tcp_target();
    return target ? net::reach_of(interfaces_, target->host, target->zone, local_ip_towards)
                  : Reach::routed;
}

bool Host::Impl::is_local(Multiaddr const& address) const {
    auto const ip = ip_of(address);
    return ip && is_own(interfaces_, *ip);
}

// By what others may take for an address of their own: a container's bridge has the same one on
// every machine.
bool Host::Impl::listens_at(TcpTarget const& target) const {
    auto const ip = Ip::parse(target.host);
    if (!ip || !is_own(interfaces_, *ip)) {
        return false;
    }
    return std::ranges::any_of(listeners_.addresses(), [&](Multiaddr const& listener) {
        auto const own = listener.tcp_target();
        auto const own_ip = Ip::parse(own->host);
        bool const is_everywhere = own_ip->is_unspecified() && own_ip->is_ip4() == ip->is_ip4();
        return own->port == target.port && (is_everywhere || own_ip == ip);
    });
}

asio::awaitable<void> Host::Impl::watch_interfaces() {
    while (true) {
        co_await interface_watcher_.changed();
        auto found = scan_interfaces();
        if (found && *found != interfaces_) {
            interfaces_ = std::move(*found);
            on_interfaces_changed();
        }
    }
}

void Host::Impl::on_interfaces_changed() {
    log::info("net", "the network interfaces have changed");
    book_.rank([this](Multiaddr const& address) { return reach_of(address); }, now());
    book_changed_.notify();
    if (mdns_) {
        mdns_->interfaces_changed();
    }
    for (auto const& peer : peers_.peers()) {
        update_contact(peer);
    }
    announce_addresses();
}

// --- Discovery ---

asio::awaitable<void> Host::Impl::run_mdns() {
    auto on_discovered = [this](mdns::Discovered const& found) {
        log::debug("net", "discovered {} at {}", found.peer.text(), found.address.text());
        learn(
            found.address.with_peer(found.peer),
            {.origin = DialBook::Origin::heard, .of_this_machine = found.of_this_machine}
        );
    };
    mdns_ = std::make_unique<MdnsSocket>(
        executor_, id(), listeners_.addresses(), std::move(on_discovered)
    );
    co_await mdns_->run();
}

asio::awaitable<void> Host::Impl::watch_isolation() {
    Isolation isolation(now());
    while (true) {
        switch (isolation.look(peers_.peers().size(), now())) {
        case Isolation::Word::nothing:
            break;
        case Isolation::Word::begins:
        case Isolation::Word::goes_on:
            log::warning("net", "{}", isolation_text(options_.mdns, interfaces_, book_.facts()));
            if (mdns_) {
                mdns_->search();
            }
            break;
        case Isolation::Word::ended:
            log::info("net", "this node is not alone any more");
            break;
        }
        co_await peers_changed_.wait_until(isolation.deadline());
    }
}

} // namespace exo::net
