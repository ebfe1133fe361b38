// SPDX-License-Identifier: Apache-2.0
#include "node/direct.hpp"

#include "net/host/async.hpp"

#include <fmt/format.h>

namespace exo::node {
namespace {

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
    auto work = ask_without_limit(
        host, std::move(peer), std::move(protocol), std::move(question), answer_bytes_max
    );
    auto const answer = co_await net::before(net::now() + limit, std::move(work));
    if (answer) {
        co_return *answer;
    }
    co_return Error(Errc::timed_out, fmt::format("no answer on {} in time", name));
}

} // namespace exo::node
