// SPDX-License-Identifier: Apache-2.0
#include "net/host/ping_driver.hpp"

#include "base/entropy.hpp"
#include "base/log.hpp"
#include "base/overloaded.hpp"

#include <array>
#include <variant>

namespace exo::net {
namespace {

// One connection's questions. Nothing waits beyond the machine's deadline: a link that takes no
// more bytes is a miss as well.
class PingDriver {
public:
    PingDriver(std::shared_ptr<Connection> connection, ping::Timing timing)
        : connection_(std::move(connection))
        , machine_(Random(random_u64()), now(), timing) {}

    asio::awaitable<void> run() {
        while (connection_->is_open()) {
            while (auto const action = machine_.next_action()) {
                co_await carry_out(*action);
            }
            if (stream_) {
                co_await read();
            } else {
                co_await pause_until(machine_.deadline());
            }
            machine_.on_time(now(), connection_->last_heard());
        }
    }

private:
    asio::awaitable<void> carry_out(ping::Action const& action) {
        if (std::holds_alternative<ping::OpenStream>(action)) {
            co_await open();
        } else if (auto const* const send = std::get_if<ping::Send>(&action)) {
            co_await write(send->payload);
        } else if (std::holds_alternative<ping::ResetStream>(action)) {
            stream_.reset();
        } else if (auto const* const lost = std::get_if<ping::Lost>(&action)) {
            log::info("net", "{} is lost: {}", connection_->peer().short_text(), lost->reason);
            connection_->give_up(Error(Errc::timed_out, lost->reason));
        }
    }

    asio::awaitable<void> open() {
        std::vector<std::string> protocols{ping::protocol};
        auto work = open_negotiated(connection_, std::move(protocols));
        auto opened = co_await before(machine_.deadline(), std::move(work));
        if (!opened) {
            co_return; // on_time() counts it.
        }
        if (*opened) {
            stream_ = std::move((*opened)->stream);
            machine_.on_stream_opened(now());
        } else if (opened->error().code() == Errc::unsupported) {
            machine_.on_refused();
        } else {
            machine_.on_stream_failed(now());
        }
    }

    asio::awaitable<void> write(ping::Payload const& payload) {
        auto const result = co_await before(machine_.deadline(), stream_->write(payload));
        if (result && !*result) {
            fail();
        }
    }

    asio::awaitable<void> read() {
        std::array<std::uint8_t, ping::payload_bytes> buffer{};
        auto const count = co_await before(machine_.deadline(), stream_->read_some(buffer));
        if (!count) {
            co_return;
        }
        if (!*count || **count == 0) {
            fail();
        } else {
            machine_.on_bytes(BytesView(buffer).first(**count), now());
        }
    }

    void fail() {
        stream_.reset();
        machine_.on_stream_failed(now());
    }

    std::shared_ptr<Connection> connection_;
    ping::Initiator machine_;
    std::unique_ptr<MuxStream> stream_;
};

} // namespace

asio::awaitable<void> ask_for_life(std::shared_ptr<Connection> connection, ping::Timing timing) {
    PingDriver driver(std::move(connection), timing);
    co_await driver.run();
}

asio::awaitable<void> answer_pings(std::unique_ptr<MuxStream> stream) {
    ping::Responder responder;
    Bytes buffer(4 * ping::payload_bytes);
    while (true) {
        auto const count = co_await stream->read_some(buffer);
        if (!count) {
            co_return;
        }
        if (*count == 0) {
            stream->close_write();
            co_return;
        }
        auto const answer = responder.receive(BytesView(buffer).first(*count));
        auto const written = co_await stream->write(answer);
        if (!written) {
            co_return;
        }
    }
}

} // namespace exo::net
