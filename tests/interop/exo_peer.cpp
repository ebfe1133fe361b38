// SPDX-License-Identifier: Apache-2.0
//
// Our own network stack as a test peer: the flags and the events of ../shared/interop's foreign
// peers, so that the same scripts can set any two of them against each other. One JSON object a
// line on standard output, each with `event` and `t_ms`.
//
// Beyond theirs it can misbehave: ask for protocols that nobody speaks (--open), and publish what
// must be refused (--inject).
#include "base/entropy.hpp"
#include "base/log.hpp"
#include "net/gossipsub/router.hpp"
#include "net/host/async.hpp"
#include "net/host/host.hpp"
#include "net/host/task_group.hpp"
#include "spoiled.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <map>
#include <optional>

namespace exo::net {
namespace {

using Json = nlohmann::json;
using namespace std::chrono;

constexpr int exit_ok = 0;
constexpr int exit_usage = 2;
constexpr int exit_expectation = 3; // Fewer messages than --expect.
constexpr std::size_t text_shown_max = 4096;
// The others say by themselves what they have counted and heard; ours is asked.
constexpr auto look_interval = 50ms;

struct Flags {
    std::vector<std::string> listen;
    std::vector<std::string> dial;
    std::string network_namespace = "v0.0.1";
    bool no_psk = false;
    std::optional<int> seed;
    std::vector<std::string> topics;
    std::string publish;
    std::size_t publish_size = 0;
    int publish_every_ms = 1000;
    std::uint64_t count = 1;
    std::string echo_topic;
    std::uint64_t expect = 0; // 0: none expected.
    int linger_ms = 500;
    std::string mdns = "off";
    std::vector<std::string> open;
    std::string inject;
    int retry_ms = 5000;
    double run_s = 30;
    bool verbose = false;
};

void define(CLI::App& app, Flags& flags) {
    app.add_option("--listen", flags.listen, "Listen here (default /ip4/127.0.0.1/tcp/0)");
    app.add_option("--dial", flags.dial, "Dial, and redial while not connected");
    app.add_option("--namespace,--psk-namespace", flags.network_namespace, "Makes the PSK");
    app.add_flag("--no-psk", flags.no_psk, "No private network");
    app.add_option("--seed", flags.seed, "Identity of 32 bytes N; random without")
        ->check(CLI::Range(0, 255));
    app.add_option("--topic", flags.topics, "Subscribe");
    app.add_option("--publish", flags.publish, "Publish this text on the first topic");
    app.add_option("--publish-size", flags.publish_size, "Pad what is published to this size");
    app.add_option("--publish-every", flags.publish_every_ms, "Publish interval, ms");
    app.add_option("--count", flags.count, "Publish so often");
    app.add_option("--echo-topic", flags.echo_topic, "Answer messages of other topics on this one");
    app.add_option("--expect", flags.expect, "Exit 0 after so many messages, 3 at --run-s");
    app.add_option("--linger-ms", flags.linger_ms, "Stay so long after the last expected one");
    app.add_option("--mdns", flags.mdns, "Discover peers")->check(CLI::IsMember({"on", "off"}));
    app.add_option("--open", flags.open, "Open a stream of this protocol with each peer");
    app.add_option(
        "--inject",
        flags.inject,
        "Publish badly signed messages on this topic, and "
        "one good one (without --topic)"
    );
    app.add_option("--retry-ms", flags.retry_ms, "Redial interval");
    app.add_option("--run-s", flags.run_s, "Stop after this time");
    app.add_flag("-v", flags.verbose, "Log to standard error");
}

Identity identity_of(Flags const& flags) {
    if (!flags.seed) {
        return Identity::generate();
    }
    Seed seed{};
    seed.fill(static_cast<std::uint8_t>(*flags.seed));
    return Identity::from_seed(seed);
}

// Error: invalid_argument.
Result<HostOptions> options_of(Flags const& flags) {
    HostOptions options{.identity = identity_of(flags)};
    if (!flags.no_psk) {
        options.psk = psk_of_namespace(flags.network_namespace);
    }
    options.bootstrap = flags.dial;
    options.topics = flags.topics;
    options.agent_version = "exo-interop-peer/1";
    options.mdns = flags.mdns == "on";
    options.redial_interval = milliseconds(flags.retry_ms);
    auto listen = flags.listen;
    if (listen.empty()) {
        listen.emplace_back("/ip4/127.0.0.1/tcp/0");
    }
    for (auto const& text : listen) {
        auto const address = Multiaddr::parse(text);
        if (!address) {
            return address.error();
        }
        options.listen.push_back(*address);
    }
    return options;
}

class Peer {
public:
    Peer(asio::io_context& io, Flags flags, HostOptions options)
        : flags_(std::move(flags))
        , identity_(options.identity)
        , changed_(io.get_executor())
        , host_(io.get_executor(), std::move(options), callbacks())
        , tasks_(io.get_executor()) {}

    // The exit status.
    asio::awaitable<int> run() {
        auto const result = host_.start();
        emit({{"event", "start"}, {"implementation", "exo"}, {"peer", host_.id().text()}});
        if (!result) {
            emit({{"event", "listen_error"}, {"error", result.error().text()}});
            co_return exit_usage;
        }
        for (auto const& address : host_.listen_addresses()) {
            emit({{"event", "listening"}, {"address", address.with_peer(host_.id()).text()}});
        }
        tasks_.spawn(publish_all());
        tasks_.spawn(tell_what_changes());
        co_await wait_for_end();
        tasks_.cancel_all();
        co_await tasks_.join();
        co_await host_.stop();
        emit({{"event", "stop"}, {"received", received_}, {"published", published_}});
        co_return received_ >= flags_.expect ? exit_ok : exit_expectation;
    }

    void interrupt() {
        interrupted_ = true;
        changed_.notify();
    }

private:
    HostCallbacks callbacks() {
        return {
            .on_peer_connected = [this](PeerId const& peer) { on_connected(peer); },
            .on_peer_disconnected = [this](PeerId const& peer) { on_disconnected(peer); },
            .on_gossip = [this](
                             std::string const& topic, PeerId const& author, Bytes const& data
                         ) { on_gossip(topic, author, data); },
        };
    }

    void emit(Json event) {
        auto const since_start = steady_clock::now() - start_;
        event["t_ms"] = duration_cast<milliseconds>(since_start).count();
        std::cout << event.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    }

    void on_connected(PeerId const& peer) {
        for (auto const& connection : host_.connections()) {
            if (connection.peer == peer) {
                emit({
                    {"event", "connected"},
                    {"peer", peer.text()},
                    {"direction", connection.outbound ? "out" : "in"},
                    {"address", connection.remote.text()},
                    {"connections", 1},
                });
            }
        }
        for (auto const& protocol : flags_.open) {
            tasks_.spawn(open(peer, protocol));
        }
        if (!flags_.inject.empty()) {
            tasks_.spawn(inject(peer));
        }
        changed_.notify();
    }

    void on_disconnected(PeerId const& peer) {
        identified_.erase(peer);
        emit({{"event", "disconnected"}, {"peer", peer.text()}, {"connections", 0}});
    }

    void on_gossip(std::string const& topic, PeerId const& author, Bytes const& data) {
        ++received_;
        auto const shown = as_text(data).substr(0, text_shown_max);
        emit({
            {"event", "message"},
            {"source", author.text()},
            {"topic", topic},
            {"data", std::string(shown)},
            {"bytes", data.size()},
        });
        if (!flags_.echo_topic.empty() && flags_.echo_topic != topic) {
            auto echo = Bytes{'e', 'c', 'h', 'o', ':'};
            append(echo, data);
            publish(flags_.echo_topic, echo);
        }
        changed_.notify();
    }

    void publish(std::string const& topic, BytesView data) {
        if (auto const result = host_.publish(topic, data); !result) {
            emit({{"event", "publish_error"}, {"topic", topic}, {"error", result.error().text()}});
            return;
        }
        ++published_;
        emit({{"event", "published"}, {"topic", topic}, {"bytes", data.size()}});
    }

    // The first one an interval after a peer has said who it is, when its subscriptions are known.
    asio::awaitable<void> publish_all() {
        std::uint64_t done = 0;
        bool had_identified = false; // An interval ago.
        while (!flags_.publish.empty() && !flags_.topics.empty() && done < flags_.count) {
            co_await pause_until(now() + milliseconds(flags_.publish_every_ms));
            if (!std::exchange(had_identified, !identified_.empty())) {
                continue;
            }
            auto text = flags_.publish + " " + std::to_string(done);
            text.resize(std::max(text.size(), flags_.publish_size), '.');
            publish(flags_.topics.front(), as_bytes(text));
            ++done;
        }
    }

    asio::awaitable<void> open(PeerId peer, std::string protocol) {
        auto const stream = co_await host_.open_stream(peer, protocol);
        Json event{{"peer", peer.text()}, {"protocol", protocol}};
        event["event"] = stream ? "opened" : "refused";
        if (!stream) {
            event["error"] = stream.error().text();
            event["code"] = to_string(stream.error().code());
        }
        emit(event);
    }

    // On a stream of its own: without a topic the host opens none for gossip.
    asio::awaitable<void> inject(PeerId peer) {
        auto const stream = co_await host_.open_stream(peer, gossipsub::protocol_1_2);
        if (!stream) {
            emit({{"event", "inject_error"}, {"error", stream.error().text()}});
            co_return;
        }
        auto const number = static_cast<std::uint64_t>(
            duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count()
        );
        for (auto const& rpc : spoiled_rpcs(identity_, flags_.inject, number)) {
            auto const written = co_await write_message(**stream, rpc);
            if (!written) {
                emit({{"event", "inject_error"}, {"error", written.error().text()}});
                co_return;
            }
            ++published_;
        }
        emit({{"event", "injected"}, {"messages", published_}});
        co_await pause_until(TimePoint::max()); // The stream stays: its end could undo the last.
    }

    asio::awaitable<void> tell_what_changes() {
        while (true) {
            co_await pause_until(now() + look_interval);
            tell_identities();
            tell_counters();
        }
    }

    void tell_identities() {
        for (auto const& peer : host_.connected_peers()) {
            auto const pings = host_.speaks(peer, "/ipfs/ping/1.0.0");
            if (pings && identified_.emplace(peer, *pings).second) {
                emit({{"event", "identify"}, {"peer", peer.text()}, {"speaks_ping", *pings}});
            }
        }
    }

    void tell_counters() {
        auto const counters = host_.counters();
        Json const counted{
            {"handshakes_failed", counters.handshakes_failed},
            {"messages_rejected", counters.messages_rejected},
            {"streams_refused", counters.streams_refused},
        };
        if (counted != counted_) {
            counted_ = counted;
            Json event = counted;
            event["event"] = "counters";
            emit(event);
        }
    }

    asio::awaitable<void> wait_for_end() {
        auto const deadline = now() + duration_cast<Duration>(duration<double>(flags_.run_s));
        auto const expects_more = [this] {
            return flags_.expect == 0 || received_ < flags_.expect;
        };
        while (expects_more() && !interrupted_ && now() < deadline) {
            co_await changed_.wait_until(deadline);
        }
        if (!expects_more() && !interrupted_) {
            co_await pause_until(now() + milliseconds(flags_.linger_ms));
        }
    }

    Flags flags_;
    Identity identity_;
    steady_clock::time_point start_ = steady_clock::now();
    Signal changed_;
    std::map<PeerId, bool> identified_;
    Json counted_;
    std::uint64_t received_ = 0;
    std::uint64_t published_ = 0;
    bool interrupted_ = false;
    Host host_;
    TaskGroup tasks_;
};

int run(Flags const& flags) {
    auto options = options_of(flags);
    if (!options) {
        std::cerr << "exo_interop_peer: " << options.error().text() << '\n';
        return exit_usage;
    }
    log::start(flags.verbose ? log::Level::debug : log::Level::warning, "");
    asio::io_context io(1);
    Peer peer(io, flags, std::move(*options));
    asio::signal_set signals(io, SIGTERM, SIGINT);
    signals.async_wait([&](auto const& error, int) {
        if (!error) {
            peer.interrupt();
        }
    });
    int status = exit_usage;
    asio::co_spawn(io, peer.run(), [&](std::exception_ptr, int result) {
        status = result;
        io.stop();
    });
    io.run();
    return status;
}

} // namespace
} // namespace exo::net

int main(int argc, char** argv) {
    CLI::App app("A peer of our own libp2p stack, for interoperability tests");
    exo::net::Flags flags;
    exo::net::define(app, flags);
    CLI11_PARSE(app, argc, argv);
    return exo::net::run(flags);
}
