// SPDX-License-Identifier: Apache-2.0
//
// One upgraded connection: moves bytes between the socket, the Channel and the yamux Session, and
// hands out streams. It decides nothing about protocols or peers.
//
// Shared by the coroutine that runs it, the Host's table and its streams. Network thread only.
#pragma once

#include "net/host/mux_stream.hpp"
#include "net/host/transport.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>

namespace exo::net {

class Connection : public std::enable_shared_from_this<Connection> {
public:
    using OnStream = std::function<void(std::unique_ptr<MuxStream>)>;

    // How long a connection that we close may take to write what it has, and to read what the peer
    // has on the way.
    static constexpr Duration linger = 300ms;

    Connection(Upgraded upgraded, HostLimits const& limits, OnStream on_stream);
    Connection(Connection const&) = delete;
    Connection& operator=(Connection const&) = delete;

    // Until the connection ends; returns why. Once.
    asio::awaitable<Error> run();

    // Errors: unavailable (it is ending, or the peer does not take more), limit.
    [[nodiscard]] Result<std::unique_ptr<MuxStream>> open();

    // Says good-bye, writes what it has and ends, within `linger`. Idempotent.
    void close(Error reason);

    // The same, because the peer seems to be in trouble.
    void give_up(Error reason);

    [[nodiscard]] bool was_given_up() const { return given_up_; }

    [[nodiscard]] PeerId const& peer() const { return info_.peer; }

    [[nodiscard]] ConnectionInfo const& info() const { return info_; }

    // When bytes last came; the handshake counts.
    [[nodiscard]] TimePoint last_heard() const { return last_heard_; }

    [[nodiscard]] bool is_open() const { return !closing_; }

    [[nodiscard]] std::size_t direct_streams() const { return direct_streams_; }

    [[nodiscard]] HostLimits const& limits() const { return limits_; }

private:
    friend class MuxStream;

    asio::awaitable<Error> read_all();
    asio::awaitable<Error> write_all();
    asio::awaitable<Error> keep_time();
    Result<void> receive_plain();
    void take_events();
    void on_event(yamux::StreamOpened const& event);
    void on_event(yamux::DataReceived& event);
    void on_event(yamux::StreamEnded const& event);
    void on_event(yamux::StreamWritable const& event);
    void on_event(yamux::GoAwayReceived const& event);
    std::unique_ptr<MuxStream> add_stream(yamux::StreamId id);
    void begin_closing(Error reason);
    void end(Error const& reason);

    // For MuxStream. They do nothing for a stream that is gone: the peer may have opened another
    // with its id.
    [[nodiscard]] std::size_t send(yamux::StreamId id, StreamState const& state, BytesView bytes);
    void release(yamux::StreamId id, StreamState const& state, std::size_t bytes_count);
    void close_write(yamux::StreamId id, StreamState const& state);
    void reset(yamux::StreamId id, StreamState const& state);
    void abandon(yamux::StreamId id, StreamState const& state);
    [[nodiscard]] bool knows(yamux::StreamId id, StreamState const& state) const;
    void wake_writer();

    asio::any_io_executor executor_;
    Socket socket_;
    std::unique_ptr<Channel> channel_;
    ConnectionInfo info_;
    HostLimits limits_;
    OnStream on_stream_;
    yamux::Session session_;
    std::map<yamux::StreamId, std::shared_ptr<StreamState>> streams_;
    Signal wake_; // For the writer: there is output, or it is time to end.
    Signal closing_began_;
    std::optional<Error> closing_;
    TimePoint close_deadline_ = TimePoint::max();
    // We said good-bye: what the peer has on the way is read until it closes, or `linger` ends.
    bool drains_ = false;
    TimePoint last_heard_;
    bool given_up_ = false;
    bool ended_ = false;
    std::size_t direct_streams_ = 0;
    std::size_t live_streams_ = 0; // MuxStreams that exist, also of streams that are gone.
};

} // namespace exo::net
