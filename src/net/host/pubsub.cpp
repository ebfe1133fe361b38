// SPDX-License-Identifier: Apache-2.0
#include "net/host/pubsub.hpp"

#include "base/entropy.hpp"
#include "base/log.hpp"

#include <chrono>

namespace exo::net {
namespace {

// As rust: a restarted node must not repeat its numbers, so they begin at the wall clock.
std::uint64_t first_sequence_number() {
    auto const since_epoch = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(since_epoch).count()
    );
}

} // namespace

PubSub::PubSub(
    asio::any_io_executor executor,
    Identity const& identity,
    gossipsub::Limits const& limits,
    Hooks hooks
)
    : executor_(std::move(executor))
    , hooks_(std::move(hooks))
    , router_(identity, Random(random_u64()), first_sequence_number(), now(), limits) {}

std::vector<std::string> PubSub::protocols() {
    return {gossipsub::protocol_1_2, gossipsub::protocol_1_1, gossipsub::protocol_1_0};
}

void PubSub::peer_connected(PeerId const& peer) {
    auto const writer = std::make_shared<Writer>(executor_);
    writers_.insert_or_assign(peer, writer);
    router_.peer_connected(peer);
    hooks_.spawn(write_to(peer, writer));
    pump();
}

void PubSub::peer_disconnected(PeerId const& peer) {
    if (auto const found = writers_.find(peer); found != writers_.end()) {
        found->second->stopped = true;
        found->second->wake();
        writers_.erase(found);
    }
    router_.peer_disconnected(peer);
    pump();
}

void PubSub::connections_changed(PeerId const& peer) {
    if (auto const found = writers_.find(peer); found != writers_.end()) {
        found->second->wake();
    }
}

Result<void> PubSub::publish(std::string const& topic, BytesView data) {
    auto const result = router_.publish(topic, data, now());
    pump();
    return result;
}

asio::awaitable<void> PubSub::keep_heartbeat() {
    while (true) {
        co_await pause_until(router_.deadline());
        router_.heartbeat(now());
        pump();
    }
}

// Delivers what the router has found and wakes those who have to write. A callback may publish and
// come here again: the outer call then goes on for both.
void PubSub::pump() {
    if (pumping_) {
        return;
    }
    pumping_ = true;
    while (auto const message = router_.next_event()) {
        hooks_.on_message(*message);
    }
    pumping_ = false;
    for (auto const& peer : router_.peers_to_wake()) {
        connections_changed(peer);
    }
}

asio::awaitable<void> PubSub::read(std::unique_ptr<MuxStream> stream) {
    struct Reading {
        std::map<Connection const*, MuxStream*>& all;
        MuxStream& stream;

        Reading(std::map<Connection const*, MuxStream*>& readings, MuxStream& newest)
            : all(readings)
            , stream(newest) {
            auto const [entry, is_first] = all.emplace(&stream.connection(), &stream);
            if (!is_first) {
                entry->second->reset(); // Which ends its reading.
                entry->second = &stream;
            }
        }

        Reading(Reading const&) = delete;
        Reading& operator=(Reading const&) = delete;

        ~Reading() {
            auto const entry = all.find(&stream.connection());
            if (entry != all.end() && entry->second == &stream) {
                all.erase(entry);
            }
        }
    };

    Reading const reading(inbound_, *stream);
    auto const peer = stream->peer();
    while (true) {
        auto const rpc = co_await read_message(*stream, router_.limits().rpc_bytes_max);
        if (!rpc) {
            log::debug("net", "gossip of {}: {}", peer.short_text(), rpc.error().text());
            co_return;
        }
        auto const result = router_.receive(peer, *rpc, now());
        pump();
        if (!result) {
            log::debug("net", "gossip of {}: {}", peer.short_text(), result.error().text());
            co_return;
        }
    }
}

asio::awaitable<void> PubSub::Writer::wait_until(TimePoint deadline) {
    timer_.expires_at(deadline);
    co_await timer_.async_wait(as_value);
}

asio::awaitable<void> PubSub::write_to(PeerId peer, WriterPtr writer) {
    auto const& limits = router_.limits();
    std::map<std::weak_ptr<Connection>, int, std::owner_less<>> opened_on;
    bool announced = false;
    while (!writer->stopped) {
        auto const connection = hooks_.preferred(peer);
        bool const needed = announced || router_.has_rpc(peer);
        if (!needed || !connection || opened_on[connection] >= limits.streams_per_connection_max) {
            co_await writer->wait_until(TimePoint::max());
            continue;
        }
        std::erase_if(opened_on, [](auto const& entry) { return entry.first.expired(); });
        ++opened_on[connection];
        auto opened = co_await open_negotiated(connection, protocols());
        if (!opened) {
            log::debug("net", "no gossip to {}: {}", peer.short_text(), opened.error().text());
            if (opened.error().code() == Errc::unsupported) {
                opened_on[connection] = limits.streams_per_connection_max;
            }
            co_await pause_until(now() + limits.stream_reopen_pause);
            continue;
        }
        if (auto const version = gossipsub::version_of(opened->protocol)) {
            router_.peer_speaks(peer, *version);
        }
        if (announced) {
            router_.announce_again(peer);
        }
        announced = true;
        co_await use_stream(peer, writer, *opened->stream);
        if (opened_on[connection] >= limits.streams_per_connection_max) {
            log::info("net", "no more gossip to {} on this connection", peer.short_text());
        }
        if (hooks_.preferred(peer) == connection) {
            co_await pause_until(
                now() + limits.stream_reopen_pause
            ); // The stream was lost, not moved.
        }
    }
}

asio::awaitable<void> PubSub::use_stream(PeerId peer, WriterPtr writer, MuxStream& stream) {
    using namespace asio::experimental::awaitable_operators;
    co_await (write_queue(peer, *writer, stream) || watch(stream));
}

asio::awaitable<void> PubSub::write_queue(PeerId const& peer, Writer& writer, MuxStream& stream) {
    while (!writer.stopped && hooks_.preferred(peer).get() == &stream.connection()) {
        if (auto const due = router_.rpc_due(peer); due > now()) {
            co_await writer.wait_until(due);
            continue;
        }
        auto const rpc = router_.next_rpc(peer, now());
        if (!rpc) {
            continue; // All of it was unwanted.
        }
        auto const result = co_await write_message(stream, *rpc);
        if (!result) {
            co_return;
        }
    }
    stream.close_write();
}

// Returns when the peer has reset the stream. It has nothing to say on it, and may close its side.
asio::awaitable<void> PubSub::watch(MuxStream& stream) {
    Bytes ignored(64);
    while (true) {
        auto const count = co_await stream.read_some(ignored);
        if (!count) {
            co_return;
        }
        if (*count == 0) {
            co_await pause_until(TimePoint::max());
        }
    }
}

} // namespace exo::net
