// SPDX-License-Identifier: Apache-2.0
//
// A Stream of a yamux connection.
#pragma once

#include "net/host/async.hpp"
#include "net/host/byte_queue.hpp"
#include "net/host/host.hpp"
#include "net/yamux/session.hpp"

#include <memory>
#include <optional>

namespace exo::net {

class Connection;

// What the connection keeps of one stream. Two owners: the Connection, which fills it, and the
// MuxStream, which reads it and may outlive the connection.
struct StreamState {
    explicit StreamState(asio::any_io_executor const& executor)
        : readable(executor)
        , writable(executor) {}

    ByteQueue received; // Not read yet; the yamux window bounds it.
    bool ended = false; // The peer sends no more.
    std::optional<Error> broken;
    bool write_closed = false;
    Signal readable;
    Signal writable;
};

class MuxStream final : public Stream {
public:
    MuxStream(
        std::shared_ptr<Connection> connection,
        yamux::StreamId id,
        std::shared_ptr<StreamState> state
    );
    MuxStream(MuxStream const&) = delete;
    MuxStream& operator=(MuxStream const&) = delete;
    ~MuxStream() override;

    [[nodiscard]] PeerId const& peer() const override;
    asio::awaitable<Result<std::size_t>> read_some(std::span<std::uint8_t> into) override;
    asio::awaitable<Result<void>> write(BytesView bytes) override;
    void close_write() override;
    void reset() override;

    // Puts bytes back that belong to the protocol agreed upon.
    void unread(Bytes bytes);

    // From now on it counts as a direct stream of its connection, which is not closed under it.
    void mark_direct();

    [[nodiscard]] Connection& connection() { return *connection_; }

    [[nodiscard]] Connection const& connection() const { return *connection_; }

private:
    std::shared_ptr<Connection> connection_;
    yamux::StreamId id_;
    std::shared_ptr<StreamState> state_;
    std::size_t unread_bytes_ = 0; // Of the front: their credit has been given back already.
    bool direct_ = false;
};

} // namespace exo::net
