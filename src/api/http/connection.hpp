// SPDX-License-Identifier: Apache-2.0
//
// One client's connection: reads requests one after the other, hands each to the handlers, and
// watches for a client that hangs up while its answer is being made. A coroutine, owned by the
// server; all on the network thread.
//
// Invariants: at most one coroutine (run) uses the socket to write; the only other pending
// operation is the watching read, which is never pending while a request is being read.
#pragma once

#include "api/http/server.hpp"
#include "api/http/signal.hpp"
#include "api/http/wire.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>

#include <memory>
#include <optional>
#include <string>

namespace exo::api::http {

// What all connections share. The server's Impl owns it and outlives them.
struct Context {
    Backend& backend;
    Options options;
    Counters counters;
    bool stopping = false;
};

struct Request {
    std::string method;
    std::string target;
    std::string body;
    std::string requested_headers; // Access-Control-Request-Headers
    bool origin_allowed = true;
    Framing framing;
};

class Connection : public std::enable_shared_from_this<Connection> {
public:
    using Socket = boost::asio::ip::tcp::socket;

    Connection(Context& context, Socket socket);

    // Until the connection is closed.
    boost::asio::awaitable<void> run();

    // There are too many: says so and closes.
    boost::asio::awaitable<void> refuse();

    // The server stops: what is being answered may end, the rest closes now.
    void stop();

    // Closes now, whatever is going on, and ends the generation.
    void abort();

    // Closes the socket; run() then ends by itself. Safe within the generation's own callback.
    void close();

    // For handlers.

    [[nodiscard]] Context& context() { return context_; }

    // The client has hung up or does not take what it is sent.
    [[nodiscard]] bool gone() const { return gone_; }

    // Writes all of `text`, which must live until then. Does nothing once the client is gone.
    boost::asio::awaitable<void> send(std::string const& text);

    // Notices at once when the client hangs up: gone() is then true and the signal is notified.
    void watch();
    // Ends watching; afterwards requests can be read again.
    boost::asio::awaitable<void> unwatch();

    [[nodiscard]] Signal& signal() { return signal_; }

    // What is running for this connection: destroyed with it at the latest.
    std::unique_ptr<Generation> generation;

private:
    boost::asio::awaitable<std::optional<Request>> read_request();
    boost::asio::awaitable<bool> wait_for_bytes();
    boost::asio::awaitable<void> answer_unreadable(boost::system::error_code error);
    boost::asio::awaitable<void> close_gently();
    // What happens to the read or write under way when `time` has passed.
    enum class OnDeadline { end_reads, close };
    void set_deadline(std::chrono::milliseconds time, OnDeadline action);
    void clear_deadline();

    Context& context_;
    Socket socket_;
    boost::beast::flat_buffer buffer_;
    boost::asio::steady_timer deadline_;
    std::uint64_t deadline_number_ = 0; // A timer that has expired may report after it was reset.
    Signal signal_;
    bool first_request_ = true;
    bool busy_ = false; // Between a request and the end of its answer.
    bool gone_ = false;
    bool timed_out_ = false; // The deadline of a read has passed.
    bool watching_ = false;  // The watching read is pending.
    bool unwatching_ = false;
};

} // namespace exo::api::http
