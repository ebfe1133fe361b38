// SPDX-License-Identifier: Apache-2.0
//
// How connections of the Host come and go.
#include "base/assert.hpp"
#include "base/log.hpp"
#include "net/host/host_impl.hpp"
#include "net/host/ping_driver.hpp"

#include <boost/asio/ip/network_v6.hpp>
#include <fmt/format.h>

#include <algorithm>

namespace exo::net {
namespace {

// After an accept that failed: out of descriptors, usually, which others must give back first.
constexpr Duration accept_pause = 100ms;
constexpr Duration surplus_look = 1s;
// Of a node with a copy of our key, after we have given up a peer.
constexpr Duration twin_pause = 60s;
constexpr Duration twin_remembered = 10min;

// Calls a function at the end of a scope, also of a cancelled coroutine.
class AtExit {
public:
    explicit AtExit(std::function<void()> action)
        : action_(std::move(action)) {}

    AtExit(AtExit const&) = delete;
    AtExit& operator=(AtExit const&) = delete;

    ~AtExit() { action_(); }

private:
    std::function<void()> action_;
};

// Whether another node has announced itself under our key of late.
bool hears_twin(NetworkFacts const& facts) {
    return std::ranges::any_of(facts.links, [](LinkFacts const& link) {
        return std::ranges::any_of(link.twins, [](auto const& twin) {
            return now() - twin.second < twin_remembered;
        });
    });
}

// What counts as one stranger: who has an IPv6 address has 2^64 of them.
std::string source_of(asio::ip::address const& ip) {
    if (ip.is_v4()) {
        return ip.to_string();
    }
    constexpr int network_bits = 64;
    return asio::ip::network_v6(ip.to_v6(), network_bits).canonical().to_string();
}

} // namespace

asio::awaitable<void> Host::Impl::accept_all(asio::ip::tcp::acceptor& acceptor) {
    while (acceptor.is_open()) {
        auto [error, socket] = co_await acceptor.async_accept(as_value);
        if (error) {
            log::debug("net", "accepting: {}", error.message());
            co_await pause_until(now() + accept_pause);
            continue;
        }
        auto const endpoint = socket.remote_endpoint(error);
        if (error || stopping_ || peers_.connection_count() >= options_.limits.connections_max) {
            log::debug("net", "refused {}: too many connections", endpoint.address().to_string());
            continue; // Closes it.
        }
        spawn(welcome(std::move(socket), endpoint.address()));
    }
}

asio::awaitable<void> Host::Impl::welcome(Socket socket, asio::ip::address ip) {
    using namespace asio::experimental::awaitable_operators;
    Visitor visitor(executor_);
    auto const admitted = pending_.admit(source_of(ip));
    visitors_.emplace(admitted.ticket, &visitor);
    AtExit const no_longer_pending([this, ticket = admitted.ticket] {
        pending_.remove(ticket);
        visitors_.erase(ticket);
    });
    if (admitted.evicted) {
        show_out(*admitted.evicted);
    }
    auto const network = network_;
    auto first = co_await (
        transport_.upgrade(std::move(socket), Direction::inbound, std::nullopt) ||
        until_shown_out(visitor)
    );
    if (first.index() != 0) {
        ++counters_.pending_evicted;
        log::debug("net", "{} has not said who it is, and another is waiting", ip.to_string());
        co_return;
    }
    auto upgraded = std::get<0>(std::move(first));
    if (!upgraded) {
        ++counters_.handshakes_failed;
        refusals_.add(ip.to_string(), upgraded.error().text(), now());
        log::debug("net", "refused {}: {}", ip.to_string(), upgraded.error().text());
        co_return;
    }
    if (network == network_) {
        adopt(std::move(*upgraded));
    }
}

asio::awaitable<void> Host::Impl::until_shown_out(Visitor& visitor) {
    while (!visitor.must_leave) {
        co_await visitor.leave.wait();
    }
}

void Host::Impl::show_out(PendingUpgrades::Ticket ticket) {
    auto const found = visitors_.find(ticket);
    EXO_ASSERT(found != visitors_.end());
    found->second->must_leave = true;
    found->second->leave.notify();
}

void Host::Impl::adopt(Upgraded upgraded) {
    if (upgraded.channel->peer() == id()) {
        ++own_arrivals_;
        return; // Closes it.
    }
    if (stopping_ || peers_.connection_count() >= options_.limits.connections_max) {
        return;
    }
    boost::system::error_code error;
    auto const local_ip = upgraded.socket.local_endpoint(error).address().to_string();
    auto on_stream = [this](std::unique_ptr<MuxStream> stream) { spawn(serve(std::move(stream))); };
    auto const connection =
        std::make_shared<Connection>(std::move(upgraded), options_.limits, std::move(on_stream));
    spawn(run_connection(connection, local_ip));
}

asio::awaitable<void> Host::Impl::run_connection(ConnectionPtr connection, std::string local_ip) {
    on_connection_up(connection, local_ip);
    AtExit const always([this, connection] { on_connection_down(connection); });
    auto const reason = co_await connection->run();
    log::debug("net", "connection with {} ended: {}", connection->peer().text(), reason.text());
}

void Host::Impl::on_connection_up(ConnectionPtr const& connection, std::string const& local_ip) {
    auto const& [peer, remote, outbound] = connection->info();
    auto const way = reach_from(interfaces_, local_ip);
    bool const is_first = peers_.add(connection, local_ip, way, now());
    book_.connected(peer, peers_.best_reach(peer), now());
    book_changed_.notify();
    log::debug(
        "net", "connected {} {} at {}", outbound ? "to" : "from", peer.text(), remote.text()
    );
    spawn(ask_for_life(connection, options_.ping));
    spawn(ask_identity(connection));
    if (callbacks_.on_connection_opened) {
        callbacks_.on_connection_opened(peers_.facts_of(*connection));
    }
    if (!is_first) {
        pubsub_.connections_changed(peer);
        return;
    }
    log::info("net", "peer {} is here, at {}", peer.text(), remote.text());
    update_contact(peer);
    peers_changed_.notify();
    pubsub_.peer_connected(peer);
    if (callbacks_.on_peer_connected) {
        callbacks_.on_peer_connected(peer);
    }
}

void Host::Impl::on_connection_down(ConnectionPtr const& connection) {
    auto const& peer = connection->peer();
    auto const facts = peers_.facts_of(*connection);
    bool const was_last = peers_.remove(connection);
    connection_ended_.notify();
    if (callbacks_.on_connection_closed) {
        callbacks_.on_connection_closed(facts);
    }
    if (!was_last) {
        book_.connected(peer, peers_.best_reach(peer), now());
        book_changed_.notify();
        pubsub_.connections_changed(peer);
        return;
    }
    log::info("net", "peer {} is gone", peer.text());
    pubsub_.peer_disconnected(peer);
    // At once: a peer that restarts is back soon. One that we gave up gets a pause to recover. With
    // a copy of our key about, the peer may talk to that one alone: no use in coming back soon.
    auto pause = Duration(0);
    if (connection->was_given_up()) {
        bool const has_twin = !twins_told_.empty() || hears_twin(this->facts());
        pause = has_twin ? twin_pause : options_.redial_interval;
    }
    book_.lost(peer, now(), pause);
    book_changed_.notify();
    exchange_.remove(peer);
    peers_changed_.notify();
    if (mdns_) {
        mdns_->search(); // The network may have changed in a way that no interface has seen.
    }
    if (callbacks_.on_peer_disconnected) {
        callbacks_.on_peer_disconnected(peer);
    }
}

asio::awaitable<void> Host::Impl::close_surplus() {
    while (true) {
        co_await pause_until(now() + surplus_look);
        for (auto const& connection : peers_.to_close(now())) {
            auto const peer = connection->peer();
            connection->close(Error(Errc::cancelled, "there is another connection with the peer"));
            pubsub_.connections_changed(peer);
        }
    }
}

} // namespace exo::net
