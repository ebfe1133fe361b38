// SPDX-License-Identifier: Apache-2.0
//
// Real multicast on this machine: over its networks, or over loopback where there is none.
#include "net/host/mdns_socket.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <set>

namespace exo::net {
namespace {

namespace asio = boost::asio;

// Generous: a loaded machine. The test ends as soon as what it waits for is there.
constexpr auto time_max = std::chrono::seconds(30);

PeerId peer(char const* text) {
    return PeerId::parse(text).value();
}

PeerId const first = peer("12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5");
PeerId const second = peer("12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq");

struct Node {
    std::set<std::pair<PeerId, std::uint16_t>> found;
    bool has_ended = false;
    MdnsSocket socket;

    Node(asio::io_context& context, PeerId const& self, std::uint16_t port)
        : socket(
              context.get_executor(),
              self,
              {Multiaddr::tcp("0.0.0.0", port).value()},
              [this](mdns::Discovered const& one) {
                  found.emplace(one.peer, one.address.tcp_target().value().port);
              }
          ) {
        asio::co_spawn(context, socket.run(), [this](std::exception_ptr error) {
            EXPECT_FALSE(error);
            has_ended = true;
        });
    }
};

std::vector<LinkFacts> links_of(Node const& node) {
    NetworkFacts facts;
    node.socket.tell(facts);
    return facts.links;
}

void run_until(asio::io_context& context, std::function<bool()> const& is_done) {
    auto const end = std::chrono::steady_clock::now() + time_max;
    while (!is_done() && std::chrono::steady_clock::now() < end) {
        context.run_one_for(std::chrono::milliseconds(100));
    }
    EXPECT_TRUE(is_done());
}

TEST(MdnsSocket, two_nodes_on_one_machine_find_each_other) {
    asio::io_context context;
    Node a(context, first, 4001);
    Node b(context, second, 4002);
    run_until(context, [&] {
        return a.found.contains({second, 4002}) && b.found.contains({first, 4001});
    });
    a.socket.stop();
    b.socket.stop();
    run_until(context, [&] { return a.has_ended && b.has_ended; });
}

TEST(MdnsSocket, tells_what_it_sent_and_that_the_kernel_brings_it_back) {
    asio::io_context context;
    Node node(context, first, 4001);
    auto const is_back = [&] {
        auto const facts = links_of(node);
        return std::ranges::any_of(facts, [](LinkFacts const& link) {
            return link.packets_looped > 0 && link.packets_sent >= link.packets_looped;
        });
    };
    run_until(context, is_back);
    for (auto const& link : links_of(node)) {
        EXPECT_FALSE(link.interface.empty());
        EXPECT_FALSE(link.addresses.empty());
        EXPECT_EQ(link.error, "") << link.interface;
    }
    node.socket.stop();
    run_until(context, [&] { return node.has_ended; });
}

TEST(MdnsSocket, asks_everybody_when_told_to) {
    asio::io_context context;
    Node node(context, first, 4001);
    auto const sent = [&] {
        std::uint64_t count = 0;
        for (auto const& link : links_of(node)) {
            count += link.packets_sent;
        }
        return count;
    };
    run_until(context, [&] { return sent() > 0; });
    auto const before = sent();
    node.socket.ask_everybody();
    EXPECT_EQ(sent(), before + links_of(node).size());
    node.socket.stop();
    run_until(context, [&] { return node.has_ended; });
}

TEST(MdnsSocket, B078_two_nodes_with_one_key_notice_each_other) {
    asio::io_context context;
    Node a(context, first, 4001);
    Node b(context, first, 4002);
    auto const has_twin = [](Node const& node, std::uint16_t port) {
        auto const facts = links_of(node);
        return std::ranges::any_of(facts, [&](LinkFacts const& link) {
            return std::ranges::any_of(link.twins, [&](auto const& twin) {
                return twin.first.tcp_target()->port == port;
            });
        });
    };
    run_until(context, [&] { return has_twin(a, 4002) && has_twin(b, 4001); });
    a.socket.stop();
    b.socket.stop();
    run_until(context, [&] { return a.has_ended && b.has_ended; });
}

TEST(MdnsSocket, stops_before_it_has_begun_and_more_than_once) {
    asio::io_context context;
    Node node(context, first, 4001);
    node.socket.stop();
    node.socket.stop();
    run_until(context, [&] { return node.has_ended; });
}

TEST(MdnsSocket, may_go_while_it_runs) {
    asio::io_context context;
    bool has_ended = false;
    {
        MdnsSocket socket(context.get_executor(), first, {}, [](auto const&) {});
        asio::co_spawn(context, socket.run(), [&](std::exception_ptr) { has_ended = true; });
        context.run_one_for(std::chrono::seconds(1));
    }
    run_until(context, [&] { return has_ended; });
}

TEST(MdnsSocket, leaves_nothing_behind_when_it_is_cancelled_and_goes) {
    asio::io_context context;
    asio::cancellation_signal cancel;
    {
        MdnsSocket socket(context.get_executor(), first, {}, [](auto const&) {});
        auto const on_end = [](std::exception_ptr) {};
        asio::co_spawn(context, socket.run(), asio::bind_cancellation_slot(cancel.slot(), on_end));
        context.run_for(std::chrono::milliseconds(200));
        cancel.emit(asio::cancellation_type::terminal);
        context.run_for(std::chrono::milliseconds(200)); // run() unwinds, its readers do not.
    }
    run_until(context, [&] { return context.stopped(); });
}

} // namespace
} // namespace exo::net
