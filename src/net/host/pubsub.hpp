// SPDX-License-Identifier: Apache-2.0
//
// The driver of gossipsub: reads the RPCs of every connection, writes those of the Router on one
// stream per peer, and keeps its heartbeat.
//
// The stream goes over the peer's preferred connection and moves with it. rust counts inbound
// streams and turns gossip off at the fifth of a connection, so each connection gets few of them
// (specs/libp2p.md 1.1).
//
// Of the inbound gossip streams of a connection only the newest is read, as rust has it: a peer
// opens another one because it has lost the one before. So a connection holds one RPC of a peer at
// most while it is being read.
//
// Owned by the Host, which outlives all coroutines of this. Network thread only.
#pragma once

#include "net/gossipsub/router.hpp"
#include "net/host/negotiate.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace exo::net {

class PubSub {
public:
    struct Hooks {
        std::function<void(asio::awaitable<void>)> spawn;
        // Where streams to this peer go; null if it is not connected.
        std::function<std::shared_ptr<Connection>(PeerId const&)> preferred;
        std::function<void(gossipsub::Message const&)> on_message;
    };

    PubSub(
        asio::any_io_executor executor,
        Identity const& identity,
        gossipsub::Limits const& limits,
        Hooks hooks
    );

    // The names that streams of this protocol have, in the order in which we propose them.
    [[nodiscard]] static std::vector<std::string> protocols();

    void subscribe(std::string const& topic) { router_.subscribe(topic, now()); }

    // The first connection with a peer has come; its last has gone.
    void peer_connected(PeerId const& peer);
    void peer_disconnected(PeerId const& peer);

    void forget_messages() { router_.forget_messages(); }

    // Another connection may be the preferred one now.
    void connections_changed(PeerId const& peer);

    // Until the inbound stream ends.
    asio::awaitable<void> read(std::unique_ptr<MuxStream> stream);

    // Until cancelled.
    asio::awaitable<void> keep_heartbeat();

    [[nodiscard]] Result<void> publish(std::string const& topic, BytesView data);

    [[nodiscard]] gossipsub::Counters const& counters() const { return router_.counters(); }

private:
    // What the coroutine that writes to one peer and those who wake it share.
    class Writer {
    public:
        explicit Writer(asio::any_io_executor const& executor)
            : timer_(executor) {}

        void wake() { timer_.cancel(); }

        // Until it is woken, and until `deadline` at most. For one coroutine.
        asio::awaitable<void> wait_until(TimePoint deadline);

        bool stopped = false;

    private:
        asio::steady_timer timer_;
    };

    using WriterPtr = std::shared_ptr<Writer>;

    asio::awaitable<void> write_to(PeerId peer, WriterPtr writer);
    asio::awaitable<void> use_stream(PeerId peer, WriterPtr writer, MuxStream& stream);
    asio::awaitable<void> write_queue(PeerId const& peer, Writer& writer, MuxStream& stream);
    asio::awaitable<void> watch(MuxStream& stream);
    void pump();

    asio::any_io_executor executor_;
    Hooks hooks_;
    gossipsub::Router router_;
    std::map<PeerId, WriterPtr> writers_;
    std::map<Connection const*, MuxStream*> inbound_; // The streams that are being read.
    bool pumping_ = false;
};

} // namespace exo::net
