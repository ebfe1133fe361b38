// SPDX-License-Identifier: Apache-2.0
//
// What is spoken on the Host's streams.
#include "base/log.hpp"
#include "net/host/host_impl.hpp"
#include "net/host/ping_driver.hpp"
#include "net/ping/ping.hpp"

#include <algorithm>

namespace exo::net {
namespace {

constexpr char const* protocol_version = "exo/1.0.0";

} // namespace

std::vector<std::string> Host::Impl::protocols() const {
    std::vector<std::string> result{ping::protocol, identify::protocol, identify::push_protocol};
    std::ranges::copy(PubSub::protocols(), std::back_inserter(result));
    for (auto const& [protocol, handler] : handlers_) {
        result.push_back(protocol);
    }
    return result;
}

asio::awaitable<void> Host::Impl::serve(std::unique_ptr<MuxStream> stream) {
    auto const protocol = co_await accept_negotiated(*stream, protocols());
    if (!protocol) {
        ++counters_.streams_refused;
        log::debug("net", "stream of {}: {}", stream->peer().short_text(), protocol.error().text());
        co_return;
    }
    co_await dispatch(std::move(stream), *protocol);
}

asio::awaitable<void>
Host::Impl::dispatch(std::unique_ptr<MuxStream> stream, std::string protocol) {
    if (auto const handler = handlers_.find(protocol); handler != handlers_.end()) {
        stream->mark_direct();
        co_await handler->second(std::move(stream));
    } else if (protocol == ping::protocol) {
        co_await answer_pings(std::move(stream));
    } else if (protocol == identify::protocol) {
        co_await tell_identity(std::move(stream));
    } else if (protocol == identify::push_protocol) {
        co_await hear_identity(std::move(stream), true);
    } else {
        co_await pubsub_.read(std::move(stream));
    }
}

asio::awaitable<void> Host::Impl::ask_identity(ConnectionPtr connection) {
    std::vector<std::string> names{identify::protocol};
    auto opened = co_await open_negotiated(connection, std::move(names));
    if (!opened) {
        log::debug(
            "net",
            "{} does not say who it is: {}",
            connection->peer().short_text(),
            opened.error().text()
        );
        co_return;
    }
    opened->stream->close_write(); // We only read.
    co_await hear_identity(std::move(opened->stream), false);
}

asio::awaitable<void> Host::Impl::hear_identity(std::unique_ptr<MuxStream> stream, bool is_push) {
    auto const& limits = options_.identify;
    auto const deadline = now() + limits.patience;
    auto const message = co_await before(deadline, read_message(*stream, limits.message_bytes_max));
    if (message && *message) {
        set_identity(stream->peer(), **message, is_push);
    }
}

void Host::Impl::set_identity(PeerId const& peer, BytesView bytes, bool is_push) {
    auto message = identify::decode(bytes, options_.identify);
    if (!message) {
        log::debug("net", "identify of {}: {}", peer.short_text(), message.error().text());
        return;
    }
    if (message->public_key && PeerId::of(*message->public_key) != peer) {
        log::debug("net", "identify of {} has the key of somebody else", peer.short_text());
        return;
    }
    if (auto const* const known = peers_.identity(peer); known != nullptr && is_push) {
        auto updated = *known;
        identify::update(updated, std::move(*message));
        *message = std::move(updated);
    }
    log::debug("net", "{} is {}", peer.short_text(), message->agent_version);
    auto const addresses = message->listen;
    peers_.set_identity(peer, std::move(*message));
    learn_addresses_of(peer, addresses);
    pubsub_.connections_changed(peer); // Knowing what it is may change which one we prefer.
}

Bytes Host::Impl::own_identity(Connection const& connection) const {
    identify::Message message;
    message.public_key = options_.identity.public_key();
    message.listen = listeners_.reachable(interfaces_, peers_.local_ip(connection));
    message.protocols = protocols();
    message.observed = connection.info().remote;
    message.protocol_version = protocol_version;
    message.agent_version = options_.agent_version;
    return identify::encode(message);
}

asio::awaitable<void> Host::Impl::tell_identity(std::unique_ptr<MuxStream> stream) {
    auto const encoded = own_identity(stream->connection());
    auto const deadline = now() + options_.identify.patience;
    auto const written = co_await before(deadline, write_message(*stream, encoded));
    if (written && *written) {
        stream->close_write();
    }
}

asio::awaitable<void> Host::Impl::push_identities() {
    while (true) {
        co_await addresses_changed_.wait();
        co_await pause_until(now() + options_.identify.push_pause);
        for (auto const& peer : peers_.peers()) {
            bool const may_speak = speaks(peer, identify::push_protocol).value_or(true);
            if (auto const connection = peers_.preferred(peer); connection && may_speak) {
                spawn(push_identity(connection));
            }
        }
    }
}

asio::awaitable<void> Host::Impl::push_identity(ConnectionPtr connection) {
    std::vector<std::string> names{identify::push_protocol};
    auto opened = co_await open_negotiated(connection, std::move(names));
    if (opened) {
        co_await tell_identity(std::move(opened->stream));
    } // Or it does not want to hear of it.
}

asio::awaitable<Result<std::unique_ptr<Stream>>>
Host::Impl::open_stream(PeerId peer, std::string protocol) {
    auto const self = shared_from_this();
    // The connection may end under us although another one with the peer stands: try that too.
    constexpr int tries_max = 2;
    Error last(Errc::unavailable, "not connected to " + peer.text());
    for (int i = 0; i < tries_max; ++i) {
        auto const connection = peers_.preferred(peer);
        if (!connection) {
            break;
        }
        std::vector<std::string> names{protocol};
        auto opened = co_await open_negotiated(connection, std::move(names));
        if (opened) {
            opened->stream->mark_direct();
            co_return std::unique_ptr<Stream>(std::move(opened->stream));
        }
        last = opened.error();
        if (connection->is_open()) {
            break;
        }
    }
    if (last.code() == Errc::unsupported) {
        last = Error(Errc::protocol, "refused by " + peer.text() + ": " + last.text());
    }
    co_return last;
}

} // namespace exo::net
