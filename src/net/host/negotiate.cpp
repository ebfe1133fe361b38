// SPDX-License-Identifier: Apache-2.0
#include "net/host/negotiate.hpp"

#include "base/assert.hpp"
#include "net/multistream/negotiation.hpp"

#include <fmt/format.h>

namespace exo::net {
namespace {

// More than any negotiation needs; the rest is given back to the stream.
constexpr std::size_t read_bytes = 1024;

// Moves the bytes of either side until it is confirmed.
template <class Side>
asio::awaitable<Result<void>> negotiate(MuxStream& stream, Side& side) {
    Bytes buffer(read_bytes);
    while (true) {
        auto const output = side.take_output();
        if (!output.empty()) {
            auto const written = co_await stream.write(output);
            if (!written) {
                co_return written.error();
            }
        }
        if (side.confirmed()) {
            stream.unread(side.take_rest());
            co_return Result<void>();
        }
        auto const count = co_await stream.read_some(buffer);
        if (!count) {
            co_return count.error();
        }
        if (*count == 0) {
            co_return Error(Errc::io, "the peer ended the stream while negotiating");
        }
        auto const result = side.receive(BytesView(buffer).first(*count));
        if (!result) {
            co_return result.error();
        }
    }
}

template <class Side>
asio::awaitable<Result<void>> negotiate_in_time(MuxStream& stream, Side& side) {
    auto const limit = stream.connection().limits().negotiation_timeout;
    auto const result = co_await before(now() + limit, negotiate(stream, side));
    if (!result) {
        co_return Error(
            Errc::timed_out,
            fmt::format("no agreement on the stream's protocol within {} s", seconds_of(limit))
        );
    }
    co_return *result;
}

} // namespace

asio::awaitable<Result<OpenedStream>>
open_negotiated(std::shared_ptr<Connection> connection, std::vector<std::string> protocols) {
    auto stream = connection->open();
    if (!stream) {
        co_return stream.error();
    }
    multistream::Dialer dialer(std::move(protocols), multistream::Mode::wait);
    auto const result = co_await negotiate_in_time(**stream, dialer);
    if (!result) {
        co_return result.error(); // Dropping the stream resets it.
    }
    EXO_ASSERT(dialer.agreed().has_value());
    OpenedStream opened{std::move(*stream), *dialer.agreed()};
    co_return std::move(opened);
}

asio::awaitable<Result<std::string>>
accept_negotiated(MuxStream& stream, std::vector<std::string> protocols) {
    multistream::Listener listener(std::move(protocols));
    auto const result = co_await negotiate_in_time(stream, listener);
    if (!result) {
        co_return result.error();
    }
    co_return *listener.agreed();
}

} // namespace exo::net
