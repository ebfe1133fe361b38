// SPDX-License-Identifier: Apache-2.0
#include "net/host/host.hpp"

#include "base/assert.hpp"
#include "base/entropy.hpp"
#include "base/log.hpp"
#include "net/host/host_impl.hpp"
#include "net/interfaces/scan.hpp"

#include <algorithm>

namespace exo::net {
namespace {

// Of stop(): what connections get to say good-bye, a little more than they take themselves.
constexpr Duration farewell = Connection::linger + 100ms;

asio::awaitable<void>
keep_alive([[maybe_unused]] std::shared_ptr<void> owner, asio::awaitable<void> work) {
    co_await std::move(work);
}

PubSub::Hooks pubsub_hooks(
    std::function<void(asio::awaitable<void>)> spawn,
    PeerTable const& peers,
    HostCallbacks const& callbacks
) {
    return {
        .spawn = std::move(spawn),
        .preferred = [&peers](PeerId const& peer) { return peers.preferred(peer); },
        .on_message =
            [&callbacks](gossipsub::Message const& message) {
                if (callbacks.on_gossip) {
                    callbacks.on_gossip(message.topic, message.author, message.data);
                }
            },
    };
}

} // namespace

Host::Impl::Impl(asio::any_io_executor executor, HostOptions options, HostCallbacks callbacks)
    : executor_(std::move(executor))
    , options_(std::move(options))
    , callbacks_(std::move(callbacks))
    , transport_(executor_, options_.identity, options_.psk, options_.limits)
    , interface_watcher_(executor_)
    , book_(id(), Random(random_u64()), DialBook::Limits{.pause_max = options_.redial_interval})
    , book_changed_(executor_)
    , peers_(id())
    , connection_ended_(executor_)
    , peers_changed_(executor_)
    , exchange_(id())
    , exchange_changed_(executor_)
    , addresses_changed_(executor_)
    , pubsub_(
          executor_,
          options_.identity,
          options_.gossip,
          pubsub_hooks(
              [this](asio::awaitable<void> work) { spawn(std::move(work)); }, peers_, callbacks_
          )
      )
    , pending_(options_.limits.pending_max, options_.limits.pending_per_ip_max)
    , network_changed_(executor_)
    , tasks_(executor_) {}

void Host::Impl::spawn(asio::awaitable<void> work) {
    tasks_.spawn(keep_alive(shared_from_this(), std::move(work)));
}

void Host::Impl::handle(std::string protocol, StreamHandler handler) {
    auto const added = handlers_.emplace(std::move(protocol), std::move(handler)).second;
    EXO_ASSERT(added);
}

Result<void> Host::Impl::start() {
    std::vector<Multiaddr> bootstrap;
    for (auto const& text : options_.bootstrap) {
        auto const address = parse_address(text);
        if (!address) {
            return address.error();
        }
        bootstrap.push_back(*address);
    }
    EXO_TRY(listen());
    if (auto found = scan_interfaces()) {
        interfaces_ = std::move(*found);
    }
    handle(peers::protocol, [this](auto stream) { return hear_peers(std::move(stream)); });
    for (auto const& topic : options_.topics) {
        pubsub_.subscribe(topic);
    }
    for (auto const& address : bootstrap) {
        learn(address, {.origin = DialBook::Origin::given, .of_this_machine = true});
    }
    for (auto& acceptor : listeners_.acceptors()) {
        spawn(accept_all(acceptor));
    }
    spawn(watch_interfaces());
    spawn(dial_all());
    spawn(tell_peers());
    spawn(watch_isolation());
    spawn(pubsub_.keep_heartbeat());
    spawn(close_surplus());
    spawn(push_identities());
    if (options_.mdns) {
        spawn(run_mdns());
    }
    for (auto const& address : listeners_.addresses()) {
        log::info("net", "{} listens on {}", id().text(), address.text());
    }
    return {};
}

Result<void> Host::Impl::listen() {
    auto opened = listeners_.open(executor_, options_.listen);
    for (auto const& addresses : options_.listen_else) {
        if (opened) {
            break;
        }
        log::info("net", "{}; trying another port", opened.error().text());
        opened = listeners_.open(executor_, addresses);
    }
    return opened;
}

asio::awaitable<void> Host::Impl::stop() {
    auto const self = shared_from_this();
    stopping_ = true;
    listeners_.close();
    if (mdns_) {
        mdns_->stop();
    }
    for (auto const& connection : peers_.connections()) {
        connection->close(Error(Errc::cancelled, "this node is stopping"));
    }
    auto const deadline = now() + farewell;
    while (peers_.connection_count() > 0 && now() < deadline) {
        co_await connection_ended_.wait_until(deadline);
    }
    tasks_.cancel_all();
    co_await tasks_.join();
}

void Host::Impl::abandon() {
    stopping_ = true;
    callbacks_ = {}; // The handlers stay: their coroutines still have to unwind.
    listeners_.close();
    tasks_.cancel_all();
}

std::vector<Multiaddr> const& Host::Impl::listen_addresses() const {
    return listeners_.addresses();
}

std::vector<ConnectionInfo> Host::Impl::connections() const {
    std::vector<ConnectionInfo> result;
    for (auto const& connection : peers_.connections()) {
        result.push_back(connection->info());
    }
    return result;
}

std::optional<bool> Host::Impl::speaks(PeerId const& peer, std::string const& protocol) const {
    auto const* const identity = peers_.identity(peer);
    if (identity == nullptr) {
        return std::nullopt;
    }
    return std::ranges::find(identity->protocols, protocol) != identity->protocols.end();
}

HostCounters Host::Impl::counters() const {
    auto counters = counters_;
    counters.messages_rejected = pubsub_.counters().messages_rejected;
    return counters;
}

NetworkFacts Host::Impl::facts() const {
    NetworkFacts facts{
        .self = id(),
        .listen = listen_addresses(),
        .dials = book_.facts(),
        .refusals = refusals_.facts(),
        .connections = peers_.facts(),
    };
    if (mdns_) {
        mdns_->tell(facts);
    }
    return facts;
}

Result<void> Host::Impl::publish(std::string const& topic, BytesView data) {
    return pubsub_.publish(topic, data);
}

void Host::Impl::disconnect(PeerId const& peer) {
    for (auto const& connection : peers_.connections(peer)) {
        connection->give_up(Error(Errc::cancelled, "this node has given the peer up"));
    }
}

void Host::Impl::set_psk(std::optional<Psk> psk) {
    if (psk == options_.psk) {
        return;
    }
    options_.psk = psk;
    transport_.set_psk(psk);
    ++network_;
    network_changed_.notify();
    pubsub_.forget_messages(); // What was said there is not for those here.
    for (auto const& connection : peers_.connections()) {
        connection->close(Error(Errc::cancelled, "this node went to another network"));
    }
    book_.start_over(now());
    book_changed_.notify();
}

void Host::Impl::set_bootstrap(std::vector<Multiaddr> const& addresses) {
    book_.keep_given(addresses, now());
    for (auto const& address : addresses) {
        learn(address, {.origin = DialBook::Origin::given, .of_this_machine = true});
    }
}

Host::Host(asio::any_io_executor executor, HostOptions options, HostCallbacks callbacks)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(options), std::move(callbacks))) {
}

Host::~Host() {
    impl_->abandon();
}

void Host::handle(std::string protocol, StreamHandler handler) {
    impl_->handle(std::move(protocol), std::move(handler));
}

Result<void> Host::start() {
    return impl_->start();
}

asio::awaitable<void> Host::stop() {
    return impl_->stop();
}

PeerId const& Host::id() const {
    return impl_->id();
}

std::vector<Multiaddr> Host::listen_addresses() const {
    return impl_->listen_addresses();
}

std::vector<PeerId> Host::connected_peers() const {
    return impl_->connected_peers();
}

std::vector<ConnectionInfo> Host::connections() const {
    return impl_->connections();
}

std::optional<bool> Host::speaks(PeerId const& peer, std::string const& protocol) const {
    return impl_->speaks(peer, protocol);
}

HostCounters Host::counters() const {
    return impl_->counters();
}

NetworkFacts Host::facts() const {
    return impl_->facts();
}

asio::awaitable<Result<std::unique_ptr<Stream>>>
Host::open_stream(PeerId peer, std::string protocol) {
    return impl_->open_stream(std::move(peer), std::move(protocol));
}

Result<void> Host::publish(std::string const& topic, BytesView data) {
    return impl_->publish(topic, data);
}

void Host::dial(Multiaddr address) {
    impl_->dial(address);
}

void Host::disconnect(PeerId const& peer) {
    impl_->disconnect(peer);
}

void Host::announce_addresses() {
    impl_->announce_addresses();
}

void Host::set_psk(std::optional<Psk> psk) {
    impl_->set_psk(psk);
}

void Host::set_bootstrap(std::vector<Multiaddr> addresses) {
    impl_->set_bootstrap(addresses);
}

} // namespace exo::net
