// SPDX-License-Identifier: Apache-2.0
//
// How connections of the Host come and go.
#include "base/log.hpp"
#include "net/host/host_impl.hpp"
#include "net/host/ping_driver.hpp"

#include <fmt/format.h>

namespace exo::net {
namespace {

// After an accept that failed: out of descriptors, usually, which others must give back first.
constexpr Duration accept_pause = 100ms;
constexpr Duration surplus_look = 1s;

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
        auto const ip = endpoint.address().to_string();
        if (error || !has_room_for(ip)) {
            log::debug("net", "refused a connection of {}: too many at once", ip);
            continue; // Closes it.
        }
        spawn(welcome(std::move(socket), ip));
    }
}

bool Host::Impl::has_room_for(std::string const& ip) const {
    auto const found = pending_.find(ip);
    return !stopping_ && pending_count_ < pending_max &&
           (found == pending_.end() || found->second < pending_per_ip_max) &&
           peers_.connection_count() + pending_count_ < connections_max;
}

asio::awaitable<void> Host::Impl::welcome(Socket socket, std::string ip) {
    ++pending_[ip];
    ++pending_count_;
    AtExit const no_longer_pending([this, ip] {
        --pending_count_;
        if (--pending_[ip] == 0) {
            pending_.erase(ip);
        }
    });
    auto upgraded =
        co_await transport_.upgrade(std::move(socket), Direction::inbound, std::nullopt);
    if (!upgraded) {
        ++counters_.handshakes_failed;
        refusals_.add(ip, upgraded.error().text(), now());
        log::debug("net", "refused {}: {}", ip, upgraded.error().text());
        co_return;
    }
    adopt(std::move(*upgraded));
}

void Host::Impl::adopt(Upgraded upgraded) {
    if (upgraded.channel->peer() == id()) {
        ++own_arrivals_;
        return; // Closes it.
    }
    if (stopping_ || peers_.connection_count() >= connections_max) {
        return;
    }
    boost::system::error_code error;
    auto const local_ip = upgraded.socket.local_endpoint(error).address().to_string();
    auto on_stream = [this](std::unique_ptr<MuxStream> stream) { spawn(serve(std::move(stream))); };
    auto const connection = std::make_shared<Connection>(std::move(upgraded), std::move(on_stream));
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
    spawn(ask_for_life(connection));
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
    // At once: a peer that restarts is back soon. One that we gave up gets a pause to recover.
    book_.lost(peer, now(), connection->was_given_up() ? options_.redial_interval : Duration(0));
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
