// SPDX-License-Identifier: Apache-2.0
//
// This node on the network: a libp2p host with gossipsub and direct streams. It owns sockets and
// timers and runs the protocol machines of net/*; what they decide it only carries out.
//
// One thread: everything here runs on the executor given, and callbacks are called on it.
#pragma once

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/time.hpp"
#include "net/crypto/identity.hpp"
#include "net/crypto/psk.hpp"
#include "net/diagnosis/facts.hpp"
#include "net/gossipsub/limits.hpp"
#include "net/host/limits.hpp"
#include "net/identify/limits.hpp"
#include "net/ping/ping.hpp"
#include "net/wire/multiaddr.hpp"
#include "net/wire/peer_id.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace exo::net {

namespace asio = boost::asio;

// A bidirectional byte stream with one peer, after negotiation. Dropping it resets it, unless it
// was closed. Methods are called by one coroutine at a time per direction.
class Stream {
public:
    virtual ~Stream() = default;

    [[nodiscard]] virtual PeerId const& peer() const = 0;

    // At least one byte, or 0 at the end of the stream. Errors: cancelled (the peer reset the
    // stream), io (the connection is lost): a caller that resumes must tell the two apart.
    virtual asio::awaitable<Result<std::size_t>> read_some(std::span<std::uint8_t> into) = 0;

    // All of it; waits while the peer's window is full. `bytes` must outlive the call.
    virtual asio::awaitable<Result<void>> write(BytesView bytes) = 0;

    // No more writes; reading goes on. Ends the stream once the peer has done so too.
    virtual void close_write() = 0;

    // Both directions end now; the peer sees a reset.
    virtual void reset() = 0;
};

// Messages on a stream: an unsigned varint length, then as many bytes.
// Errors: those of the stream; limit when longer than `bytes_max`; io at the end of the stream.
[[nodiscard]] asio::awaitable<Result<Bytes>> read_message(Stream& stream, std::size_t bytes_max);
[[nodiscard]] asio::awaitable<Result<void>> write_message(Stream& stream, BytesView message);

struct HostOptions {
    Identity identity;
    std::optional<Psk> psk;        // Of a private network; none: a public one.
    std::vector<Multiaddr> listen; // Port 0: chosen by the system.
    // Each instead of all of `listen`, in turn, when one of those before is taken.
    std::vector<std::vector<Multiaddr>> listen_else;
    // A multiaddr with or without /p2p, or host:port; retried for ever. Whoever answers there is
    // welcome, also under another id than the one written.
    std::vector<std::string> bootstrap;
    std::vector<std::string> topics; // Subscribed from the start.
    std::string agent_version;       // For identify.
    bool mdns = true;
    Duration redial_interval = 5s; // At most, to the peers that we hope for.
    HostLimits limits;
    gossipsub::Limits gossip;
    identify::Limits identify;
    ping::Timing ping;
};

// What has been seen, for people and tests.
struct HostCounters {
    std::uint64_t handshakes_failed = 0; // Wrong PSK, garbage, time-outs.
    std::uint64_t pending_evicted = 0;   // Strangers whose place a newcomer took.
    std::uint64_t messages_rejected = 0; // Gossip that was malformed or badly signed.
    std::uint64_t streams_refused = 0;
};

struct ConnectionInfo {
    PeerId peer;
    Multiaddr remote;
    bool outbound = false;
};

struct HostCallbacks {
    // The first connection with a peer has come, or its last one has gone.
    std::function<void(PeerId const&)> on_peer_connected;
    std::function<void(PeerId const&)> on_peer_disconnected;
    // Each connection; told before the two above.
    std::function<void(ConnectionFacts const&)> on_connection_opened;
    std::function<void(ConnectionFacts const&)> on_connection_closed;
    // A valid, signed gossip message; not our own.
    std::function<void(std::string const& topic, PeerId const& author, Bytes const& data)>
        on_gossip;
};

class Host {
public:
    using StreamHandler = std::function<asio::awaitable<void>(std::unique_ptr<Stream>)>;

    Host(asio::any_io_executor executor, HostOptions options, HostCallbacks callbacks);
    ~Host();
    Host(Host const&) = delete;
    Host& operator=(Host const&) = delete;

    // Incoming streams of `protocol` go to `handler`, each as a coroutine that the host owns and
    // cancels on stop. Call before start().
    void handle(std::string protocol, StreamHandler handler);

    // Binds the listeners, then discovery and dialling begin. Error: io, naming address and port.
    [[nodiscard]] Result<void> start();

    // Ends all connections and coroutines; completes when none is left. Idempotent.
    asio::awaitable<void> stop();

    [[nodiscard]] PeerId const& id() const;
    [[nodiscard]] std::vector<Multiaddr> listen_addresses() const; // With the real ports.
    [[nodiscard]] std::vector<PeerId> connected_peers() const;
    [[nodiscard]] std::vector<ConnectionInfo> connections() const;
    // True if the peer said (identify) that it speaks `protocol`; empty while unknown.
    [[nodiscard]] std::optional<bool> speaks(PeerId const& peer, std::string const& protocol) const;
    [[nodiscard]] HostCounters counters() const;
    // What a diagnosis is made of: all that was seen of the network.
    [[nodiscard]] NetworkFacts facts() const;

    // Errors: unavailable (no connection), protocol (refused by the peer), timed_out (10 s).
    asio::awaitable<Result<std::unique_ptr<Stream>>> open_stream(PeerId peer, std::string protocol);

    // To all subscribed peers. Error: limit, when the message would exceed 8 MiB.
    [[nodiscard]] Result<void> publish(std::string const& topic, BytesView data);

    // Dials now, and again until connected; for addresses learnt elsewhere. A loopback address is
    // taken for one of this machine: the caller has seen to that.
    void dial(Multiaddr address);

    // Where we listen, or where that can be reached, has changed: tells all peers (identify/push).
    void announce_addresses();

    // Closes all connections with the peer (a lost beat); it may be dialled again.
    void disconnect(PeerId const& peer);

    // Into another network: connections end, those that are being made are dropped, and all known
    // addresses are tried anew with this key. Nothing happens if it is the key that we have.
    void set_psk(std::optional<Psk> psk);

    // Instead of the bootstrap addresses of the options or of an earlier call.
    void set_bootstrap(std::vector<Multiaddr> addresses);

private:
    class Impl;
    std::shared_ptr<Impl> impl_; // Shared with its coroutines, which may end after us.
};

} // namespace exo::net
