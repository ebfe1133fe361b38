// SPDX-License-Identifier: Apache-2.0
#include "net/host/connection.hpp"

#include <boost/asio/write.hpp>

#include <variant>

namespace exo::net {
namespace {

// Two Noise messages of the largest size: what a fast peer has ready, in one system call.
constexpr std::size_t read_bytes = 128 * 1024;

ConnectionInfo info_of(Channel const& channel, Upgraded const& upgraded) {
    return {
        .peer = channel.peer(),
        .remote = upgraded.remote,
        .outbound = upgraded.direction == Direction::outbound,
    };
}

} // namespace

Connection::Connection(Upgraded upgraded, HostLimits const& limits, OnStream on_stream)
    : executor_(upgraded.socket.get_executor())
    , socket_(std::move(upgraded.socket))
    , channel_(std::move(upgraded.channel))
    , info_(info_of(*channel_, upgraded))
    , limits_(limits)
    , on_stream_(std::move(on_stream))
    , session_(info_.outbound ? yamux::Side::dialer : yamux::Side::listener, now(), limits_.mux)
    , wake_(executor_)
    , closing_began_(executor_) {}

asio::awaitable<Error> Connection::run() {
    using namespace asio::experimental::awaitable_operators;
    auto const self = shared_from_this();

    struct AlwaysEnd { // Also when this coroutine is cancelled.
        Connection& connection;

        ~AlwaysEnd() { connection.end(Error(Errc::cancelled, "this node is stopping")); }
    };

    AlwaysEnd const always_end{*this};
    // The first to end cancels the others, and all have ended when this returns.
    auto const first = co_await (read_all() || write_all() || keep_time());
    auto const reason = std::visit([](Error const& error) { return error; }, first);
    end(reason);
    co_return reason;
}

void Connection::end(Error const& reason) {
    if (ended_) {
        return;
    }
    ended_ = true;
    if (!closing_) {
        closing_ = reason;
    }
    boost::system::error_code ignored;
    socket_.close(ignored);
    for (auto const& [id, state] : streams_) {
        if (!state->ended || !state->write_closed) {
            state->broken = Error(Errc::io, "connection lost: " + reason.text());
        }
        state->readable.notify();
        state->writable.notify();
    }
    streams_.clear();
    on_stream_ = nullptr;
}

void Connection::close(Error reason) {
    if (closing_) {
        return;
    }
    session_.go_away(yamux::go_away_normal);
    drains_ = true;
    begin_closing(std::move(reason));
}

void Connection::give_up(Error reason) {
    given_up_ = true;
    close(std::move(reason));
    drains_ = false; // From a peer that does not answer nothing more is hoped for.
    wake_.notify();
}

void Connection::begin_closing(Error reason) {
    closing_ = std::move(reason);
    close_deadline_ = now() + linger;
    closing_began_.notify();
    wake_.notify();
}

asio::awaitable<Error> Connection::read_all() {
    Bytes buffer(read_bytes);
    while (true) {
        // First what came together with the handshake.
        if (auto const result = receive_plain(); !result) {
            // The session has a last word to say; the writer ends this.
            begin_closing(result.error());
            co_await pause_until(TimePoint::max());
        }
        auto const [error, count] =
            co_await socket_.async_read_some(asio::buffer(buffer), as_value);
        if (error) {
            co_return io_error("reading", error);
        }
        auto const result = channel_->receive(std::span(buffer).first(count));
        if (!result) {
            co_return result.error();
        }
    }
}

Result<void> Connection::receive_plain() {
    last_heard_ = now();
    auto const plain = channel_->take_plain();
    auto const result = session_.receive(plain, last_heard_);
    take_events();
    wake_.notify();
    return result;
}

asio::awaitable<Error> Connection::write_all() {
    while (true) {
        while (session_.has_output()) {
            channel_->send(session_.take_output());
            take_events();
            auto const batch = channel_->take_output();
            auto const [error, count] =
                co_await asio::async_write(socket_, asio::buffer(batch), as_value);
            if (error) {
                co_return io_error("writing", error);
            }
        }
        if (closing_ && !drains_) {
            co_return *closing_;
        }
        co_await wake_.wait();
    }
}

asio::awaitable<Error> Connection::keep_time() {
    // An answered ping moves the session's deadline nearer; a look each second is near enough.
    constexpr Duration look = 1s;
    while (now() < close_deadline_) {
        co_await closing_began_.wait_until(std::min(now() + look, close_deadline_));
        if (now() < session_.deadline()) {
            continue;
        }
        auto const result = session_.on_time(now());
        take_events();
        wake_.notify();
        if (!result) {
            co_return result.error();
        }
    }
    co_return *closing_;
}

void Connection::take_events() {
    while (auto event = session_.next_event()) {
        std::visit([this](auto& what) { on_event(what); }, *event);
    }
}

void Connection::on_event(yamux::StreamOpened const& event) {
    // A peer that opens and resets streams is faster than the coroutines that serve them.
    bool const is_flooded = live_streams_ >= limits_.mux.streams_max;
    if (closing_ || !on_stream_ || is_flooded) {
        session_.reset(event.stream);
        return;
    }
    on_stream_(add_stream(event.stream));
}

void Connection::on_event(yamux::DataReceived& event) {
    auto const found = streams_.find(event.stream);
    if (found == streams_.end()) {
        return; // It crossed with our reset.
    }
    auto const state = found->second;
    state->received.push(std::move(event.bytes));
    state->readable.notify();
}

void Connection::on_event(yamux::StreamEnded const& event) {
    auto const found = streams_.find(event.stream);
    if (found == streams_.end()) {
        return;
    }
    auto const state = found->second;
    if (event.reset) {
        state->broken = Error(Errc::cancelled, "the peer has reset the stream");
        state->received.clear();
    } else {
        state->ended = true;
    }
    state->readable.notify();
    state->writable.notify();
    if (event.reset) {
        streams_.erase(found);
    }
}

void Connection::on_event(yamux::StreamWritable const& event) {
    if (auto const found = streams_.find(event.stream); found != streams_.end()) {
        found->second->writable.notify();
    }
}

void Connection::on_event(yamux::GoAwayReceived const&) {
    close(Error(Errc::io, "the peer says good-bye"));
    drains_ = false; // It sends nothing more, and waits for our end.
    wake_.notify();
}

std::unique_ptr<MuxStream> Connection::add_stream(yamux::StreamId id) {
    auto state = std::make_shared<StreamState>(executor_);
    // A peer may use the id of a stream that has ended again, while its MuxStream is still here.
    streams_.insert_or_assign(id, state);
    return std::make_unique<MuxStream>(shared_from_this(), id, std::move(state));
}

Result<std::unique_ptr<MuxStream>> Connection::open() {
    if (closing_) {
        return Error(Errc::unavailable, "the connection is ending: " + closing_->text());
    }
    auto const id = session_.open_stream();
    if (!id) {
        return id.error();
    }
    wake_writer();
    return add_stream(*id);
}

bool Connection::knows(yamux::StreamId id, StreamState const& state) const {
    auto const found = streams_.find(id);
    return found != streams_.end() && found->second.get() == &state;
}

std::size_t Connection::send(yamux::StreamId id, StreamState const& state, BytesView bytes) {
    auto const count = knows(id, state) ? session_.send(id, bytes) : 0;
    wake_writer();
    return count;
}

void Connection::release(yamux::StreamId id, StreamState const& state, std::size_t bytes_count) {
    if (knows(id, state)) {
        session_.release(id, bytes_count, now());
        wake_writer();
    }
}

void Connection::close_write(yamux::StreamId id, StreamState const& state) {
    if (knows(id, state)) {
        session_.close_write(id);
        wake_writer();
    }
}

void Connection::reset(yamux::StreamId id, StreamState const& state) {
    if (knows(id, state)) {
        session_.reset(id);
        streams_.erase(id);
        wake_writer();
    }
}

void Connection::abandon(yamux::StreamId id, StreamState const& state) {
    if (knows(id, state)) {
        session_.abandon(id);
        streams_.erase(id);
        wake_writer();
    }
}

void Connection::wake_writer() {
    if (session_.has_output()) {
        wake_.notify();
    }
}

} // namespace exo::net
