// SPDX-License-Identifier: Apache-2.0
#include "main/doctor_look.hpp"

#include "net/crypto/identity.hpp"
#include "net/host/async.hpp"
#include "net/host/mdns_socket.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>

namespace exo::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using net::as_value;
using net::now;

// Of 64 interfaces with 64 machines heard on each, and 1000 addresses.
constexpr std::size_t document_bytes_max = std::size_t{4} << 20;
// The sockets are there at once; the second time is for a packet that was lost.
constexpr std::array<Duration, 2> ask_at{50ms, 1000ms};

Error failure(std::string const& place, beast::error_code error) {
    if (error == beast::error::timeout) {
        return {
            Errc::timed_out, fmt::format("{} takes connections, but says nothing in 3 s", place)
        };
    }
    if (error == asio::error::connection_refused) {
        return {Errc::unavailable, fmt::format("nothing listens at {}", place)};
    }
    if (error.category() == http::make_error_code(http::error::end_of_stream).category()) {
        return {Errc::protocol, fmt::format("{} does not speak HTTP ({})", place, error.message())};
    }
    return io_error(place, error);
}

Result<nlohmann::json> document_of(std::string const& place, unsigned status, std::string body) {
    auto document = nlohmann::json::parse(body, nullptr, false);
    if (status != 200 || !document.is_object() || !document.contains("findings")) {
        return Error(
            Errc::protocol, fmt::format("{} answers HTTP {} without a diagnosis", place, status)
        );
    }
    return Result<nlohmann::json>(boost::system::in_place_value, std::move(document));
}

asio::awaitable<Result<nlohmann::json>> ask(tcp::endpoint endpoint, std::string place) {
    beast::tcp_stream stream(co_await asio::this_coro::executor);
    stream.expires_after(std::chrono::duration_cast<std::chrono::milliseconds>(node_time));
    auto const [connect_error] = co_await stream.async_connect(endpoint, as_value);
    if (connect_error) {
        co_return failure(place, connect_error);
    }
    http::request<http::empty_body> request(http::verb::get, "/network/diagnosis", 11);
    request.set(http::field::host, place);
    request.set(http::field::connection, "close");
    auto const [write_error, written] = co_await http::async_write(stream, request, as_value);
    if (write_error) {
        co_return failure(place, write_error);
    }
    beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(document_bytes_max);
    auto const [read_error, count] = co_await http::async_read(stream, buffer, parser, as_value);
    if (read_error) {
        co_return failure(place, read_error);
    }
    co_return document_of(place, parser.get().result_int(), std::move(parser.get().body()));
}

asio::awaitable<void> ask_and_listen(net::MdnsSocket& socket, net::NetworkFacts& facts) {
    auto const begin = now();
    for (auto const& time : ask_at) {
        co_await net::pause_until(begin + time);
        socket.ask_everybody();
    }
    co_await net::pause_until(begin + listen_time);
    socket.tell(facts);
    socket.stop();
}

} // namespace

Result<nlohmann::json> ask_node(std::string const& host, std::uint16_t port) {
    beast::error_code error;
    auto const address = asio::ip::make_address(host, error);
    if (error) {
        return Error(Errc::invalid_argument, fmt::format("'{}' is no IP address", host));
    }
    auto const shown = address.is_v6() ? "[" + host + "]" : host;
    auto const place = fmt::format("{}:{}", shown, port);
    asio::io_context context(1);
    Result<nlohmann::json> result = Error(Errc::internal, "not asked");
    asio::co_spawn(
        context,
        ask({address, port}, place),
        [&result](std::exception_ptr thrown, Result<nlohmann::json> answer) {
            if (thrown) {
                std::rethrow_exception(thrown);
            }
            result = std::move(answer);
        }
    );
    context.run();
    return result;
}

net::Situation look_at_network() {
    asio::io_context context(1);
    net::Situation situation;
    situation.started = now();
    situation.patience = listen_time - 100ms; // Its sockets come a moment later.
    situation.is_macos = net::this_is_macos;
    net::MdnsSocket socket(
        context.get_executor(), net::Identity::generate().peer_id(), {}, [](auto const&...) {}
    );
    auto const on_end = [](std::exception_ptr thrown) {
        if (thrown) {
            std::rethrow_exception(thrown);
        }
    };
    asio::co_spawn(context, socket.run(), on_end);
    asio::co_spawn(context, ask_and_listen(socket, situation.network), on_end);
    context.run();
    situation.now = now();
    return situation;
}

} // namespace exo::cli
