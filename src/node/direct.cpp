// SPDX-License-Identifier: Apache-2.0
#include "node/direct.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <fmt/format.h>

namespace exo::node {
namespace {

using namespace asio::experimental::awaitable_operators;

asio::awaitable<Result<Bytes>> ask_without_limit(
    net::Host& host,
    net::PeerId peer,
    std::string protocol,
    Bytes question,
    std::size_t answer_bytes_max
) {
    auto opened = co_await host.open_stream(peer, protocol);
    if (!opened) {
        co_return opened.error();
    }
    auto const stream = std::move(*opened);
    auto const written = co_await net::write_message(*stream, question);
    if (!written) {
        co_return written.error();
    }
    stream->close_write();
    co_return co_await net::read_message(*stream, answer_bytes_max);
}

} // namespace

asio::awaitable<Result<Bytes>>
ask(net::Host& host,
    net::PeerId peer,
    std::string protocol,
    Bytes question,
    std::size_t answer_bytes_max,
    Duration limit) {
    auto const name = protocol;
    auto const ended = co_await (
        ask_without_limit(
            host, std::move(peer), std::move(protocol), std::move(question), answer_bytes_max
        ) ||
        sleep_for(limit)
    );
    if (auto const* answer = std::get_if<0>(&ended)) {
        co_return *answer;
    }
    co_return Error(Errc::timed_out, fmt::format("no answer on {} in time", name));
}

} // namespace exo::node
