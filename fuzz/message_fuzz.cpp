// SPDX-License-Identifier: Apache-2.0
//
// Messages behind a varint length, read from a stream that gives its bytes in pieces, against a
// reader that has them all.
#include "base/assert.hpp"
#include "fuzz_target.hpp"
#include "net/host/host.hpp"
#include "net/wire/varint.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

namespace exo::net {
namespace {

constexpr std::size_t message_bytes_max = 1000;

class FixedStream final : public Stream {
public:
    explicit FixedStream(fuzz::Pieces const& pieces)
        : pieces_(pieces) {}

    [[nodiscard]] PeerId const& peer() const override { return peer_; }

    asio::awaitable<Result<std::size_t>> read_some(std::span<std::uint8_t> into) override {
        auto const count = std::min({into.size(), pieces_.size, pieces_.bytes.size()});
        std::ranges::copy(pieces_.bytes.first(count), into.begin());
        pieces_.bytes = pieces_.bytes.subspan(count);
        co_return count;
    }

    asio::awaitable<Result<void>> write(BytesView) override { co_return Result<void>(); }

    void close_write() override {}

    void reset() override {}

private:
    fuzz::Pieces pieces_;
    PeerId peer_;
};

struct Read {
    std::vector<Bytes> messages;
    std::optional<Errc> error;
    bool operator==(Read const&) const = default;
};

asio::awaitable<void> read_stream(Stream& stream, Read& result) {
    while (!result.error) {
        auto message = co_await read_message(stream, message_bytes_max);
        if (message) {
            result.messages.push_back(std::move(*message));
        } else {
            result.error = message.error().code();
        }
    }
}

Read read_at_once(BytesView bytes) {
    Read result;
    while (true) {
        auto const length = read_varint(bytes);
        if (!length) {
            result.error = length.error().code();
        } else if (!*length) {
            result.error = Errc::io;
        } else if ((*length)->value > message_bytes_max) {
            result.error = Errc::limit;
        } else if (bytes.size() - (*length)->bytes_count < (*length)->value) {
            result.error = Errc::io;
        }
        if (result.error) {
            return result;
        }
        auto const message = bytes.subspan((*length)->bytes_count, (*length)->value);
        result.messages.emplace_back(message.begin(), message.end());
        bytes = bytes.subspan((*length)->bytes_count + message.size());
    }
}

} // namespace
} // namespace exo::net

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace exo::net;
    exo::fuzz::Pieces const pieces(exo::BytesView(data, size));
    FixedStream stream(pieces);
    Read read;
    asio::io_context io(1);
    asio::co_spawn(io, read_stream(stream, read), asio::detached);
    io.run();
    EXO_ASSERT(read == read_at_once(pieces.bytes));
    return 0;
}
