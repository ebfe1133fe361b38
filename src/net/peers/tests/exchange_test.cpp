// SPDX-License-Identifier: Apache-2.0
#include "net/peers/exchange.hpp"
#include "net/wire/tests/words.hpp"

#include <gtest/gtest.h>

#include <queue>

namespace exo::net::peers {
namespace {

constexpr TimePoint start{};

auto const lan_a = address("/ip4/10.0.0.1/tcp/1");
auto const lan_b = address("/ip4/10.0.0.2/tcp/1");
auto const lan_c = address("/ip4/10.0.0.3/tcp/1");

Contact at(Multiaddr const& one, std::string const& interface = "eth0") {
    return {.speaks = true, .interface = interface, .addresses = {one}};
}

// What is said now: to whom, of whom.
std::map<PeerId, Addresses> said(Exchange& exchange, TimePoint now) {
    std::map<PeerId, Addresses> result;
    while (auto const out = exchange.take_due(now)) {
        EXPECT_FALSE(result.contains(out->to));
        result[out->to] = decode(out->message).value();
    }
    return result;
}

TEST(Exchange, each_of_two_peers_hears_where_the_other_is) {
    Exchange exchange(numbered_peer(9));
    exchange.update(numbered_peer(1), at(lan_a), start);
    EXPECT_TRUE(said(exchange, start).empty()); // Of itself it need not hear.
    exchange.update(numbered_peer(2), at(lan_b), start);
    auto const words = said(exchange, start);
    EXPECT_EQ(words.at(numbered_peer(1)), (Addresses{{numbered_peer(2), {lan_b}}}));
    EXPECT_EQ(words.at(numbered_peer(2)), (Addresses{{numbered_peer(1), {lan_a}}}));
    EXPECT_EQ(exchange.deadline(), TimePoint::max());
}

TEST(Exchange, only_news_is_told_and_once_a_second_at_most) {
    Exchange exchange(numbered_peer(9));
    exchange.update(numbered_peer(1), at(lan_a), start);
    exchange.update(numbered_peer(2), at(lan_b), start);
    (void)said(exchange, start);
    exchange.update(numbered_peer(2), at(lan_b), start); // Nothing new.
    EXPECT_EQ(exchange.deadline(), TimePoint::max());
    exchange.update(numbered_peer(3), at(lan_c), start + 100ms);
    EXPECT_EQ(said(exchange, start + 100ms).size(), 1U); // The newcomer; the others wait.
    EXPECT_EQ(exchange.deadline(), start + 1s);
    EXPECT_EQ(said(exchange, start + 1s).size(), 2U);
    exchange.remove(numbered_peer(3)); // No news to anybody.
    EXPECT_EQ(exchange.deadline(), TimePoint::max());
    exchange.update(numbered_peer(3), at(lan_c), start + 10s); // It is back: told to all again.
    EXPECT_EQ(said(exchange, start + 10s).size(), 3U);
}

TEST(Exchange, what_did_not_arrive_is_said_again_later) {
    Exchange exchange(numbered_peer(9));
    exchange.update(numbered_peer(1), at(lan_a), start);
    exchange.update(numbered_peer(2), at(lan_b), start);
    (void)said(exchange, start);
    exchange.undelivered(numbered_peer(1), start);
    exchange.undelivered(numbered_peer(7), start); // It has gone.
    EXPECT_EQ(exchange.deadline(), start + 30s);
    EXPECT_EQ(said(exchange, start + 30s).count(numbered_peer(1)), 1U);
}

TEST(Exchange, who_does_not_speak_it_is_told_nothing_but_told_of) {
    Exchange exchange(numbered_peer(9));
    auto foreign = at(lan_a);
    foreign.speaks = false;
    exchange.update(numbered_peer(1), foreign, start);
    exchange.update(numbered_peer(2), at(lan_b), start);
    auto const words = said(exchange, start);
    ASSERT_EQ(words.size(), 1U);
    EXPECT_EQ(words.at(numbered_peer(2)), (Addresses{{numbered_peer(1), {lan_a}}}));
}

TEST(Exchange, B076_loopback_is_neither_told_nor_taken) {
    Exchange exchange(numbered_peer(9));
    Contact const local{
        .speaks = true,
        .interface = "eth0",
        .addresses =
            {address("/ip4/127.0.0.1/tcp/1"),
             address("/ip6/::1/tcp/1"),
             address("/ip4/0.0.0.0/tcp/1"),
             address("/dns/localhost/tcp/1")},
    };
    exchange.update(numbered_peer(1), local, start);
    exchange.update(numbered_peer(2), at(lan_b), start);
    EXPECT_FALSE(said(exchange, start).contains(numbered_peer(2)));
    auto const lie = encode({{numbered_peer(3), local.addresses}});
    EXPECT_TRUE(exchange.receive(numbered_peer(1), lie, start).value().empty());
}

TEST(Exchange, link_local_addresses_stay_on_their_link) {
    Exchange exchange(numbered_peer(9));
    exchange.update(numbered_peer(1), at(address("/ip6zone/eth0/ip6/fe80::1/tcp/1")), start);
    exchange.update(numbered_peer(2), at(lan_b), start);
    exchange.update(numbered_peer(3), at(lan_c, "wlan0"), start);
    exchange.update(numbered_peer(4), at(address("/ip4/169.254.1.1/tcp/1"), ""), start);
    auto const words = said(exchange, start);
    // Without the zone: ours means nothing to others.
    EXPECT_EQ(
        words.at(numbered_peer(2)).at(numbered_peer(1)), std::vector{address("/ip6/fe80::1/tcp/1")}
    );
    EXPECT_FALSE(words.at(numbered_peer(3)).contains(numbered_peer(1)));
    EXPECT_FALSE(words.at(numbered_peer(2)).contains(numbered_peer(4)));
    // The hearer puts its own in, or cannot use it.
    auto const bytes = encode(
        {{numbered_peer(5), {address("/ip6/fe80::5/tcp/1"), address("/ip4/169.254.1.5/tcp/1")}}}
    );
    EXPECT_EQ(
        exchange.receive(numbered_peer(3), bytes, start).value(),
        (std::vector{
            address("/ip6zone/wlan0/ip6/fe80::5/tcp/1").with_peer(numbered_peer(5)),
            address("/ip4/169.254.1.5/tcp/1").with_peer(numbered_peer(5)),
        })
    );
    EXPECT_TRUE(exchange.receive(numbered_peer(4), bytes, start).value().empty());
}

TEST(Exchange, of_ourselves_and_of_itself_a_peer_has_nothing_to_tell) {
    Exchange exchange(numbered_peer(9));
    exchange.update(numbered_peer(1), at(lan_a), start);
    auto const bytes = encode(
        {{numbered_peer(9), {lan_b}}, {numbered_peer(1), {lan_b}}, {numbered_peer(2), {lan_c}}}
    );
    EXPECT_EQ(
        exchange.receive(numbered_peer(1), bytes, start).value(),
        std::vector{lan_c.with_peer(numbered_peer(2))}
    );
    EXPECT_EQ(exchange.receive(numbered_peer(7), bytes, start).error().code(), Errc::unavailable);
}

TEST(Exchange, who_talks_too_much_is_not_listened_to) {
    Exchange exchange(numbered_peer(9));
    exchange.update(numbered_peer(1), at(lan_a), start);
    auto const bytes = encode({{numbered_peer(2), {lan_b}}});
    for (int i = 0; i < 8; ++i) {
        EXPECT_TRUE(exchange.receive(numbered_peer(1), bytes, start));
    }
    EXPECT_EQ(exchange.receive(numbered_peer(1), bytes, start).error().code(), Errc::limit);
    EXPECT_TRUE(exchange.receive(numbered_peer(1), bytes, start + 1s));
    EXPECT_FALSE(exchange.receive(numbered_peer(1), bytes, start + 1s));
    EXPECT_TRUE(exchange.receive(numbered_peer(1), bytes, start + 1min));
}

// A chain of nodes, each knowing its neighbours only, becomes a full mesh: who hears an address
// dials it, and both ends then know each other first-hand.
TEST(Exchange, a_chain_becomes_a_full_mesh) {
    constexpr std::uint8_t count = 10;
    auto const address_of = [](std::uint8_t i) {
        return address("/ip4/10.0.0." + std::to_string(i) + "/tcp/1");
    };
    std::map<PeerId, std::uint8_t> numbers;
    std::vector<Exchange> nodes;
    for (std::uint8_t i = 0; i < count; ++i) {
        nodes.emplace_back(numbered_peer(i));
        numbers[numbered_peer(i)] = i;
    }
    std::set<std::pair<std::uint8_t, std::uint8_t>> links;
    auto const connect = [&](std::uint8_t a, std::uint8_t b, TimePoint now) {
        links.emplace(std::min(a, b), std::max(a, b));
        nodes[a].update(numbered_peer(b), at(address_of(b)), now);
        nodes[b].update(numbered_peer(a), at(address_of(a)), now);
    };
    for (std::uint8_t i = 1; i < count; ++i) {
        connect(static_cast<std::uint8_t>(i - 1), i, start);
    }
    for (auto now = start; now < start + 10s; now += 1s) {
        for (std::uint8_t i = 0; i < count; ++i) {
            while (auto const out = nodes[i].take_due(now)) {
                auto const to = numbers.at(out->to);
                for (auto const& heard :
                     nodes[to].receive(numbered_peer(i), out->message, now).value()) {
                    connect(to, numbers.at(heard.peer().value()), now);
                }
            }
        }
    }
    EXPECT_EQ(links.size(), count * (count - 1U) / 2);
}

} // namespace
} // namespace exo::net::peers
