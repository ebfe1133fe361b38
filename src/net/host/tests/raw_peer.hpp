// SPDX-License-Identifier: Apache-2.0
//
// A peer with a real connection, but no Host behind it: it answers what a test wants it to, and
// says what a test makes it say.
#pragma once

#include "net/gossipsub/rpc.pb.h"
#include "net/host/negotiate.hpp"
#include "net/host/ping_driver.hpp"
#include "net/identify/message.hpp"
#include "stranger.hpp"

#include <boost/asio/co_spawn.hpp>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace exo::net::test {

class RawPeer : public std::enable_shared_from_this<RawPeer> {
public:
    // What becomes of a stream that the host opens; those of other protocols are refused.
    using Handler = std::function<asio::awaitable<void>(std::unique_ptr<MuxStream>)>;

    RawPeer(asio::io_context& io, Upgraded upgraded)
        : io_(io) {
        auto on_stream = [this](std::unique_ptr<MuxStream> stream) {
            spawn(serve(std::move(stream)));
        };
        connection_ =
            std::make_shared<Connection>(std::move(upgraded), HostLimits{}, std::move(on_stream));
        handlers_[ping::protocol] = [](std::unique_ptr<MuxStream> stream) {
            return answer_pings(std::move(stream));
        };
        handlers_[gossip] = [this](std::unique_ptr<MuxStream> stream) {
            return read_gossip(std::move(stream));
        };
    }

    void run() { spawn(run_connection()); }

    void handle(std::string const& protocol, Handler handler) {
        handlers_[protocol] = std::move(handler);
    }

    void refuse(std::string const& protocol) { handlers_.erase(protocol); }

    // An open stream of our own; throws, to end the test, where the host refuses it.
    asio::awaitable<std::unique_ptr<MuxStream>> open(std::string protocol) {
        std::vector<std::string> names{std::move(protocol)};
        auto opened = co_await open_negotiated(connection_, std::move(names));
        co_return std::move(opened.value().stream);
    }

    void close() { connection_->close(Error(Errc::cancelled, "the test has had enough")); }

    [[nodiscard]] bool is_open() const { return connection_->is_open(); }

    // What the host has said of its topics and what it has published, on any stream.
    [[nodiscard]] int subscriptions() const { return subscriptions_; }

    [[nodiscard]] int messages() const { return messages_; }

    [[nodiscard]] int gossip_streams() const { return gossip_streams_; }

    static constexpr char const* gossip = "/meshsub/1.2.0";

private:
    void spawn(asio::awaitable<void> work) {
        asio::co_spawn(
            io_, std::move(work), [self = shared_from_this()](std::exception_ptr) {}
            // Cancelled with the io_context.
        );
    }

    asio::awaitable<void> run_connection() { (void)co_await connection_->run(); }

    asio::awaitable<void> serve(std::unique_ptr<MuxStream> stream) {
        std::vector<std::string> names;
        for (auto const& [name, handler] : handlers_) {
            names.push_back(name);
        }
        auto const protocol = co_await accept_negotiated(*stream, std::move(names));
        if (protocol) {
            co_await handlers_.at (*protocol)(std::move(stream));
        }
    }

    asio::awaitable<void> read_gossip(std::unique_ptr<MuxStream> stream) {
        ++gossip_streams_;
        while (true) {
            auto const bytes = co_await read_message(*stream, 8 * 1024 * 1024);
            if (!bytes) {
                co_return;
            }
            gossipsub::pb::Rpc rpc;
            EXPECT_TRUE(rpc.ParseFromArray(bytes->data(), static_cast<int>(bytes->size())));
            subscriptions_ += rpc.subscriptions_size();
            messages_ += rpc.publish_size();
        }
    }

    asio::io_context& io_;
    std::shared_ptr<Connection> connection_;
    std::map<std::string, Handler> handlers_;
    int subscriptions_ = 0;
    int messages_ = 0;
    int gossip_streams_ = 0;
};

class RawPeerTest : public HostTest {
protected:
    // A connection of the peer with this seed with the host.
    std::shared_ptr<RawPeer> dial(Node& host, std::uint8_t seed = 5) {
        auto upgraded = run(shake_hands(io_, options_of(seed), host.address()));
        EXPECT_TRUE(upgraded) << upgraded.error().text();
        auto const raw = std::make_shared<RawPeer>(io_, std::move(*upgraded));
        raw->run();
        EXPECT_TRUE(run_until([&] { return !host.host.connected_peers().empty(); }));
        return raw;
    }

    std::unique_ptr<MuxStream> open(RawPeer& raw, std::string protocol) {
        return run(raw.open(std::move(protocol)));
    }

    void say(MuxStream& stream, Bytes const& message) {
        ASSERT_TRUE(run(write_message(stream, message)));
    }

    void say(MuxStream& stream, gossipsub::pb::Rpc const& rpc) {
        auto const text = rpc.SerializeAsString();
        say(stream, Bytes(text.begin(), text.end()));
    }
};

} // namespace exo::net::test
