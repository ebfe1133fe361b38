// SPDX-License-Identifier: Apache-2.0
//
// What the Host knows of its peers' addresses, and passes on (/exo/peers/1.0.0).
#include "base/log.hpp"
#include "net/host/host_impl.hpp"

namespace exo::net {

// The interface by which the peer is reached; empty if that cannot be told.
std::string Host::Impl::interface_to(PeerId const& peer) const {
    auto const connection = peers_.preferred(peer);
    auto const local = connection ? Ip::parse(peers_.local_ip(*connection)) : std::nullopt;
    auto const* const interface = local ? owner_of(interfaces_, *local) : nullptr;
    return interface == nullptr ? "" : interface->name;
}

// identify: where the peer says that it listens.
void Host::Impl::learn_addresses_of(PeerId const& peer, std::vector<Multiaddr> const& addresses) {
    auto const connection = peers_.preferred(peer);
    if (!connection) {
        return;
    }
    auto const zone = interface_to(peer);
    bool const of_this_machine = is_local(connection->info().remote);
    for (auto const& announced : addresses) {
        auto const target = announced.tcp_target();
        auto const ip = ip_of(announced);
        auto address = announced.without_peer();
        if (ip && ip->needs_zone()) {
            auto const zoned = Multiaddr::tcp(target->host + '%' + zone, target->port);
            if (!zoned) {
                continue; // On which link?
            }
            address = *zoned;
        }
        learn(
            address.with_peer(peer),
            {.origin = DialBook::Origin::heard, .of_this_machine = of_this_machine}
        );
    }
    update_contact(peer);
}

void Host::Impl::update_contact(PeerId const& peer) {
    peers::Contact contact{
        .speaks = speaks(peer, peers::protocol).value_or(false),
        .interface = interface_to(peer),
        .addresses = book_.known(peer),
    };
    exchange_.update(peer, std::move(contact), now());
    exchange_changed_.notify();
}

asio::awaitable<void> Host::Impl::tell_peers() {
    while (true) {
        while (auto out = exchange_.take_due(now())) {
            spawn(tell_peer(std::move(*out)));
        }
        co_await exchange_changed_.wait_until(exchange_.deadline());
    }
}

asio::awaitable<void> Host::Impl::tell_peer(peers::Outgoing out) {
    auto stream = co_await open_stream(out.to, peers::protocol);
    if (stream) {
        auto const deadline = now() + options_.limits.negotiation_timeout;
        auto const written = co_await before(deadline, write_message(**stream, out.message));
        if (written && *written) {
            (*stream)->close_write();
            co_return;
        }
    }
    exchange_.undelivered(out.to, now());
    exchange_changed_.notify();
}

asio::awaitable<void> Host::Impl::hear_peers(std::unique_ptr<Stream> stream) {
    auto const deadline = now() + options_.limits.negotiation_timeout;
    auto const message = co_await before(deadline, read_message(*stream, peers::message_bytes_max));
    if (!message || !*message) {
        co_return;
    }
    auto const teller = stream->peer();
    auto const told = exchange_.receive(teller, **message, now());
    if (!told) {
        log::debug("net", "{}: {}", teller.short_text(), told.error().text());
        co_return;
    }
    for (auto const& address : *told) {
        learn(address, {.origin = DialBook::Origin::told, .teller = teller});
    }
}

} // namespace exo::net
