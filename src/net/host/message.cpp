// SPDX-License-Identifier: Apache-2.0
#include "net/host/host.hpp"
#include "net/wire/varint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace exo::net {
namespace {

// Grown as bytes arrive: a length alone must not make us allocate.
constexpr std::size_t growth_bytes = 256 * 1024;

// One byte at a time, so that nothing of the message is taken.
asio::awaitable<Result<std::size_t>> read_length(Stream& stream, std::size_t bytes_max) {
    Bytes encoded;
    while (true) {
        std::array<std::uint8_t, 1> byte{};
        auto const count = co_await stream.read_some(byte);
        if (!count) {
            co_return count.error();
        }
        if (*count == 0) {
            co_return Error(Errc::io, "end of the stream");
        }
        encoded.push_back(byte[0]);
        auto const length = read_varint(encoded);
        if (!length) {
            co_return length.error();
        }
        if (!*length) {
            continue;
        }
        if ((*length)->value > bytes_max) {
            co_return Error(
                Errc::limit,
                fmt::format("a message of {} bytes; at most {}", (*length)->value, bytes_max)
            );
        }
        co_return static_cast<std::size_t>((*length)->value);
    }
}

} // namespace

asio::awaitable<Result<Bytes>> read_message(Stream& stream, std::size_t bytes_max) {
    auto const length = co_await read_length(stream, bytes_max);
    if (!length) {
        co_return length.error();
    }
    Bytes message;
    std::size_t filled = 0;
    while (filled < *length) {
        message.resize(std::min(*length, filled + growth_bytes));
        auto const room = std::span(message).subspan(filled);
        auto const count = co_await stream.read_some(room);
        if (!count) {
            co_return count.error();
        }
        if (*count == 0) {
            co_return Error(Errc::io, "end of the stream within a message");
        }
        filled += *count;
    }
    co_return message;
}

asio::awaitable<Result<void>> write_message(Stream& stream, BytesView message) {
    Bytes framed;
    append_varint(framed, message.size());
    append(framed, message);
    auto const result = co_await stream.write(framed);
    co_return result;
}

} // namespace exo::net
