// SPDX-License-Identifier: Apache-2.0
#include "net/host/mux_stream.hpp"

#include "base/assert.hpp"
#include "net/host/connection.hpp"

#include <algorithm>

namespace exo::net {

MuxStream::MuxStream(
    std::shared_ptr<Connection> connection, yamux::StreamId id, std::shared_ptr<StreamState> state
)
    : connection_(std::move(connection))
    , id_(id)
    , state_(std::move(state)) {
    ++connection_->live_streams_;
}

MuxStream::~MuxStream() {
    --connection_->live_streams_;
    if (direct_) {
        --connection_->direct_streams_;
    }
    if (state_->write_closed) {
        connection_->abandon(id_, *state_);
    } else if (!state_->broken) {
        connection_->reset(id_, *state_);
    }
}

PeerId const& MuxStream::peer() const {
    return connection_->peer();
}

void MuxStream::mark_direct() {
    if (!direct_) {
        direct_ = true;
        ++connection_->direct_streams_;
    }
}

asio::awaitable<Result<std::size_t>> MuxStream::read_some(std::span<std::uint8_t> into) {
    EXO_ASSERT(!into.empty());
    while (state_->received.empty()) {
        if (state_->ended) {
            co_return std::size_t{0};
        }
        if (state_->broken) {
            co_return *state_->broken;
        }
        co_await state_->readable.wait();
    }
    auto const count = state_->received.read(into);
    auto const credited = std::min(count, unread_bytes_);
    unread_bytes_ -= credited;
    if (count > credited) {
        connection_->release(id_, *state_, count - credited);
    }
    co_return count;
}

asio::awaitable<Result<void>> MuxStream::write(BytesView bytes) {
    while (true) {
        if (state_->broken) {
            co_return *state_->broken;
        }
        if (state_->write_closed) {
            co_return Error(Errc::invalid_argument, "the stream's writing side was closed");
        }
        bytes = bytes.subspan(connection_->send(id_, *state_, bytes));
        if (bytes.empty()) {
            co_return Result<void>();
        }
        co_await state_->writable.wait();
    }
}

void MuxStream::close_write() {
    if (!state_->write_closed && !state_->broken) {
        state_->write_closed = true;
        connection_->close_write(id_, *state_);
    }
}

void MuxStream::reset() {
    if (state_->broken) {
        return;
    }
    state_->broken = Error(Errc::io, "the stream was reset here");
    state_->received.clear();
    state_->readable.notify();
    state_->writable.notify();
    connection_->reset(id_, *state_);
}

void MuxStream::unread(Bytes bytes) {
    unread_bytes_ += bytes.size();
    state_->received.push_front(std::move(bytes));
}

} // namespace exo::net
