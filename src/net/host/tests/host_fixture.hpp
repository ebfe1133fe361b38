// SPDX-License-Identifier: Apache-2.0
//
// Hosts on loopback for tests: each runs on the test's own thread, which turns the io_context until
// what it waits for has come, or fails at a deadline.
#pragma once

#include "net/host/async.hpp"
#include "net/host/host.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace exo::net::test {

// Generous: it ends tests that would hang, and sanitizers are slow.
constexpr Duration patience = 20s;

struct Gossip {
    std::string topic;
    PeerId author;
    std::string data;
    bool operator==(Gossip const&) const = default;
};

inline HostOptions options_of(std::uint8_t seed) {
    Seed bytes{};
    bytes.fill(seed);
    HostOptions options{.identity = Identity::from_seed(bytes)};
    options.psk = psk_of_namespace("test");
    options.listen = {Multiaddr::parse("/ip4/127.0.0.1/tcp/0").value()};
    options.topics = {"events"};
    options.agent_version = "exo/test";
    options.mdns = false;
    return options;
}

// A host and what it has told.
struct Node {
    Node(asio::io_context& io, HostOptions options)
        : host(io.get_executor(), std::move(options), callbacks()) {}

    HostCallbacks callbacks() {
        return {
            .on_peer_connected = [this](PeerId const& peer) { connected.push_back(peer); },
            .on_peer_disconnected = [this](PeerId const& peer) { disconnected.push_back(peer); },
            .on_gossip = [this](
                             std::string const& topic, PeerId const& author, Bytes const& data
                         ) { gossip.push_back({topic, author, std::string(as_text(data))}); },
        };
    }

    [[nodiscard]] Multiaddr address() const { return host.listen_addresses().at(0); }

    [[nodiscard]] bool sees(Node const& other) const {
        auto const peers = host.connected_peers();
        return std::ranges::find(peers, other.host.id()) != peers.end();
    }

    std::vector<PeerId> connected;
    std::vector<PeerId> disconnected;
    std::vector<Gossip> gossip;
    Host host;
};

class HostTest : public testing::Test {
protected:
    Node& add(HostOptions options) {
        nodes_.push_back(std::make_unique<Node>(io_, std::move(options)));
        return *nodes_.back();
    }

    Node& start(HostOptions options) {
        auto& node = add(std::move(options));
        auto const result = node.host.start();
        EXPECT_TRUE(result) << result.error().text();
        return node;
    }

    Node& start(std::uint8_t seed) { return start(options_of(seed)); }

    void connect(Node& a, Node& b) {
        a.host.dial(b.address());
        ASSERT_TRUE(run_until([&] { return a.sees(b) && b.sees(a); }));
    }

    // Turns the io_context until `done`. False at the deadline.
    bool run_until(std::function<bool()> const& done, Duration limit = patience) {
        auto const deadline = now() + limit;
        io_.restart();
        while (!done()) {
            if (now() >= deadline) {
                return false;
            }
            io_.run_one_until(std::min(deadline, now() + 50ms));
        }
        return true;
    }

    void run_for(Duration duration) {
        (void)run_until([] { return false; }, duration);
    }

    // Runs a coroutine to its end and returns its result; throws, to end the test, at the limit.
    template <class T>
    T run(asio::awaitable<T> work, Duration limit = patience) {
        std::optional<T> result;
        asio::co_spawn(io_, store(result, std::move(work)), [](std::exception_ptr thrown) {
            EXPECT_FALSE(thrown);
        });
        if (!run_until([&] { return result.has_value(); }, limit)) {
            throw std::runtime_error("a coroutine has not ended in time");
        }
        return std::move(*result);
    }

    template <class T>
    static asio::awaitable<void> store(std::optional<T>& result, asio::awaitable<T> work) {
        auto value = co_await std::move(work);
        result.emplace(std::move(value));
    }

    // True if it ended in time: within 1 s, and more only where other work takes the processor.
    bool stop(Node& node, Duration limit = 3s) {
        bool stopped = false;
        asio::co_spawn(io_, node.host.stop(), [&](std::exception_ptr) { stopped = true; });
        return run_until([&] { return stopped; }, limit);
    }

    asio::io_context io_{1};
    std::vector<std::unique_ptr<Node>> nodes_;
};

} // namespace exo::net::test
