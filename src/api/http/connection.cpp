// SPDX-License-Identifier: Apache-2.0
#include "api/http/connection.hpp"

#include "api/http/handlers.hpp"
#include "api/http/origin.hpp"
#include "base/assert.hpp"
#include "base/text.hpp"

#include <boost/asio/write.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>

#include <utility>

namespace exo::api::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;

using ErrorCode = boost::system::error_code;
using Parser = beast::http::request_parser<beast::http::string_body>;

constexpr std::size_t buffer_bytes_max = 256 * 1024; // Header, and what a client sends ahead.
constexpr std::size_t ahead_bytes_max = 64 * 1024;   // Read while an answer is being made.
constexpr std::size_t read_bytes = 4096;
constexpr std::chrono::milliseconds linger_time{1000}; // For the client to read our last words.
constexpr int linger_reads_max = 256;

std::string text_of(beast::string_view text) {
    return {text.data(), text.size()};
}

Request to_request(Parser::value_type message, Options const& options) {
    using Field = beast::http::field;
    auto const origin = text_of(message[Field::origin]);
    auto const host = text_of(message[Field::host]);
    Request request;
    request.method = text_of(message.method_string());
    request.target = text_of(message.target());
    request.requested_headers = text_of(message[Field::access_control_request_headers]);
    request.origin_allowed = origin_allowed(origin, host, options.allowed_origins);
    request.framing.keep_alive = message.keep_alive();
    request.framing.head = message.method() == beast::http::verb::head;
    request.framing.chunked = message.version() >= 11;
    request.framing.origin = request.origin_allowed ? origin : "";
    request.body = std::move(message.body());
    return request;
}

bool expects_continue(Parser& parser) {
    auto const expect = parser.get()[beast::http::field::expect];
    return to_lower(text_of(expect)) == "100-continue" && !parser.is_done();
}

// What to say to a request that cannot be read; nothing when the client just left.
std::optional<ApiError> unreadable(ErrorCode error, bool timed_out, Limits const& limits) {
    using Reason = beast::http::error;
    ApiError answer{.status = 400, .type = "invalid_request_error"};
    if (timed_out) {
        answer.status = 408;
        answer.message = "the request did not arrive in time";
    } else if (error == Reason::header_limit || error == Reason::buffer_overflow) {
        answer.status = 431;
        answer.message = fmt::format("the header has over {} bytes", limits.header_bytes_max);
    } else if (error == Reason::body_limit) {
        answer.status = 413;
        answer.message = "the body has over " + format_size(limits.body_bytes_max);
    } else if (error == Reason::end_of_stream || error == Reason::partial_message ||
               error.category() != make_error_code(Reason::bad_method).category()) {
        return std::nullopt;
    } else {
        answer.message = "this is no HTTP request: " + error.message();
    }
    return answer;
}

} // namespace

Connection::Connection(Context& context, Socket socket)
    : context_(context)
    , socket_(std::move(socket))
    , buffer_(buffer_bytes_max)
    , deadline_(socket_.get_executor())
    , signal_(socket_.get_executor()) {
    ErrorCode ignored;
    socket_.set_option(asio::ip::tcp::no_delay(true), ignored); // Tokens are small and urgent.
    socket_.set_option(
        asio::socket_base::send_buffer_size(context_.options.limits.socket_bytes), ignored
    );
}

asio::awaitable<void> Connection::run() {
    while (!gone_ && !context_.stopping) {
        auto const request = co_await read_request();
        if (!request) {
            break;
        }
        ++context_.counters.requests;
        busy_ = true;
        co_await handle(*this, *request);
        generation.reset();
        co_await unwatch();
        busy_ = false;
        if (!request->framing.keep_alive) {
            break;
        }
    }
    co_await close_gently();
}

asio::awaitable<void> Connection::refuse() {
    ApiError const error{
        .status = 503,
        .message = fmt::format(
            "{} connections are open, which is the limit", context_.options.limits.connections_max
        ),
        .type = "server_error"
    };
    Framing framing;
    framing.keep_alive = false;
    auto const text = answer_text(to_answer(error), framing);
    co_await send(text);
    co_await close_gently();
}

void Connection::stop() {
    if (busy_) {
        signal_.notify(); // The handler sees context.stopping.
    } else {
        close();
    }
}

void Connection::abort() {
    generation.reset();
    close();
}

void Connection::close() {
    gone_ = true;
    ErrorCode ignored;
    socket_.close(ignored);
    clear_deadline();
    signal_.notify();
}

void Connection::set_deadline(std::chrono::milliseconds time, OnDeadline action) {
    clear_deadline();
    deadline_.expires_after(time);
    auto on_time = [weak = weak_from_this(), action, number = deadline_number_](ErrorCode error) {
        auto const self = weak.lock();
        if (error || !self || self->deadline_number_ != number) {
            return;
        }
        self->timed_out_ = true;
        switch (action) {
        case OnDeadline::close:
            ++self->context_.counters.slow_clients;
            self->close();
            break;
        case OnDeadline::end_reads:
            // Also ends a read that is complete but not yet reported; an answer can still be sent.
            ErrorCode ignored;
            self->socket_.shutdown(Socket::shutdown_receive, ignored);
            break;
        }
    };
    deadline_.async_wait(std::move(on_time));
}

void Connection::clear_deadline() {
    ++deadline_number_;
    deadline_.cancel();
}

// Between requests a client may take its time; to begin the first it may not.
asio::awaitable<bool> Connection::wait_for_bytes() {
    if (buffer_.size() > 0) {
        co_return true;
    }
    auto const& limits = context_.options.limits;
    bool const first = std::exchange(first_request_, false);
    set_deadline(first ? limits.header_time : limits.idle_time, OnDeadline::end_reads);
    auto const space = buffer_.prepare(read_bytes);
    auto const [error, bytes_count] = co_await socket_.async_read_some(space, as_value);
    clear_deadline();
    buffer_.commit(bytes_count);
    co_return !error;
}

asio::awaitable<std::optional<Request>> Connection::read_request() {
    auto const& limits = context_.options.limits;
    bool const more = co_await wait_for_bytes();
    if (!more) {
        co_return std::nullopt;
    }
    Parser parser;
    parser.header_limit(limits.header_bytes_max);
    parser.body_limit(limits.body_bytes_max);
    set_deadline(limits.header_time, OnDeadline::end_reads);
    auto const [header_error, header_bytes] =
        co_await beast::http::async_read_header(socket_, buffer_, parser, as_value);
    if (header_error) {
        co_await answer_unreadable(header_error);
        co_return std::nullopt;
    }
    if (expects_continue(parser)) {
        std::string const go_on = "HTTP/1.1 100 Continue\r\n\r\n";
        co_await send(go_on);
    }
    set_deadline(limits.body_time, OnDeadline::end_reads);
    auto const [body_error, body_bytes] =
        co_await beast::http::async_read(socket_, buffer_, parser, as_value);
    clear_deadline();
    if (body_error) {
        co_await answer_unreadable(body_error);
        co_return std::nullopt;
    }
    co_return to_request(parser.release(), context_.options);
}

asio::awaitable<void> Connection::answer_unreadable(ErrorCode error) {
    clear_deadline();
    auto const answer = unreadable(error, timed_out_, context_.options.limits);
    if (!answer) {
        co_return;
    }
    ++context_.counters.bad_requests;
    Framing framing;
    framing.keep_alive = false;
    auto const text = answer_text(to_answer(*answer), framing);
    co_await send(text);
}

asio::awaitable<void> Connection::send(std::string const& text) {
    std::size_t sent = 0;
    while (!gone_ && sent < text.size()) {
        set_deadline(context_.options.limits.write_time, OnDeadline::close);
        auto const rest = asio::buffer(text.data() + sent, text.size() - sent);
        auto const [error, bytes_count] = co_await socket_.async_write_some(rest, as_value);
        clear_deadline();
        sent += bytes_count;
        if (error) {
            close();
        }
    }
}

void Connection::watch() {
    // A client that has sent that much ahead is not watched: its next write failing must do.
    if (watching_ || gone_ || buffer_.size() >= ahead_bytes_max) {
        return;
    }
    watching_ = true;
    auto on_read = [self = shared_from_this()](ErrorCode error, std::size_t bytes_count) {
        self->watching_ = false;
        self->buffer_.commit(bytes_count);
        if (error && !(self->unwatching_ && error == asio::error::operation_aborted)) {
            self->close();
        } else if (!error && !self->unwatching_) {
            self->watch(); // The next request, sent ahead.
        }
        self->signal_.notify();
    };
    socket_.async_read_some(buffer_.prepare(read_bytes), std::move(on_read));
}

asio::awaitable<void> Connection::unwatch() {
    if (watching_) {
        unwatching_ = true;
        ErrorCode ignored;
        socket_.cancel(ignored);
    }
    while (watching_) {
        co_await signal_.wait_until(Clock::time_point::max());
    }
    unwatching_ = false;
}

// A plain close() with unread input would reset the connection and could lose our last answer.
asio::awaitable<void> Connection::close_gently() {
    ErrorCode ignored;
    if (!gone_ && !context_.stopping) {
        socket_.shutdown(Socket::shutdown_send, ignored);
        set_deadline(linger_time, OnDeadline::end_reads);
        for (int i = 0; i < linger_reads_max && !gone_; ++i) {
            buffer_.clear();
            auto const space = buffer_.prepare(read_bytes);
            auto const [error, bytes_count] = co_await socket_.async_read_some(space, as_value);
            if (error) {
                break;
            }
        }
    }
    close();
}

} // namespace exo::api::http
