// SPDX-License-Identifier: Apache-2.0
#include "net/host/dial_book.hpp"

#include <gtest/gtest.h>

#include <set>

namespace exo::net {
namespace {

constexpr TimePoint start{};

PeerId peer(std::uint8_t value) {
    PublicKey key;
    key.bytes.fill(value);
    return PeerId::of(key);
}

Multiaddr address(std::string const& text) {
    return Multiaddr::parse(text).value();
}

auto const lan = address("/ip4/192.168.1.5/tcp/4001");

class DialBookTest : public testing::Test {
protected:
    using Addresses = std::vector<Multiaddr>;

    Addresses due(TimePoint now) {
        return book_.take_due(now, [this](PeerId const& id) { return connected_.contains(id); });
    }

    std::set<PeerId> connected_;
    DialBook book_{peer(1), DialBook::Limits{}};
};

TEST_F(DialBookTest, an_address_is_dialled_at_once_and_again_after_the_interval) {
    book_.add(lan, DialBook::Origin::given, start);
    EXPECT_EQ(book_.deadline(), start);
    EXPECT_EQ(due(start), Addresses{lan});
    EXPECT_TRUE(due(start + 1h).empty()); // It is being dialled.
    book_.failed(lan, start + 1s);
    EXPECT_EQ(book_.deadline(), start + 6s);
    EXPECT_TRUE(due(start + 5s).empty());
    EXPECT_EQ(due(start + 6s), Addresses{lan});
}

TEST_F(DialBookTest, a_connected_peer_is_left_alone_until_it_is_lost) {
    book_.add(lan, DialBook::Origin::given, start);
    (void)due(start);
    book_.succeeded(lan, peer(2), start); // The address did not say who lives there.
    connected_.insert(peer(2));
    EXPECT_TRUE(due(start + 10s).empty());
    EXPECT_GT(book_.deadline(), start + 10s); // No busy loop.
    connected_.clear();
    book_.lost(peer(2), start + 11s, Duration(0));
    EXPECT_EQ(due(start + 11s), Addresses{lan});
}

TEST_F(DialBookTest, a_peer_that_was_given_up_gets_a_pause) {
    book_.add(lan.with_peer(peer(2)), DialBook::Origin::learnt, start);
    (void)due(start);
    book_.succeeded(lan.with_peer(peer(2)), peer(2), start);
    book_.lost(peer(2), start, 5s);
    EXPECT_TRUE(due(start + 4s).empty());
    EXPECT_EQ(due(start + 5s).size(), 1u);
}

TEST_F(DialBookTest, we_are_never_dialled) {
    book_.add(lan.with_peer(peer(1)), DialBook::Origin::given, start);
    EXPECT_EQ(book_.size(), 0u);
    book_.add(lan, DialBook::Origin::given, start);
    (void)due(start);
    book_.is_ourselves(lan);
    book_.add(lan, DialBook::Origin::learnt, start);
    EXPECT_TRUE(due(start + 1h).empty());
    EXPECT_EQ(book_.deadline(), TimePoint::max());
}

TEST_F(DialBookTest, better_addresses_of_a_peer_get_a_head_start) {
    auto const of = [](std::string const& text) { return address(text).with_peer(peer(2)); };
    auto const loopback = of("/ip4/127.0.0.1/tcp/1");
    auto const docker = of("/ip4/172.17.0.2/tcp/1");
    auto const tailscale = of("/ip4/100.101.0.2/tcp/1");
    auto const link_local = of("/ip4/169.254.1.1/tcp/1");
    auto const home = of("/ip4/192.168.1.5/tcp/1");
    for (auto const& one : {loopback, docker, tailscale, link_local, home}) {
        book_.add(one, DialBook::Origin::learnt, start);
    }
    EXPECT_EQ(due(start), Addresses{home});
    EXPECT_EQ(due(start + 250ms), Addresses{link_local});
    EXPECT_EQ(due(start + 500ms).size(), 2u);
    connected_.insert(peer(2));
    EXPECT_TRUE(due(start + 750ms).empty()); // Loopback came too late.
}

TEST_F(DialBookTest, the_only_address_of_a_peer_needs_no_head_start) {
    auto const loopback = address("/ip4/127.0.0.1/tcp/1");
    book_.add(loopback.with_peer(peer(2)), DialBook::Origin::learnt, start);
    book_.add(loopback, DialBook::Origin::learnt, start); // Of nobody in particular.
    EXPECT_EQ(due(start).size(), 2u);
}

TEST_F(DialBookTest, a_public_address_that_begins_like_an_overlay_is_none) {
    EXPECT_EQ(address_class(address("/ip4/100.2.3.4/tcp/1")), 0);
    EXPECT_EQ(address_class(address("/ip4/172.18.3.4/tcp/1")), 0);
    EXPECT_EQ(address_class(address("/dns/example/tcp/1")), 0);
    EXPECT_EQ(address_class(address("/ip6/::1/tcp/1")), 3);
}

TEST_F(DialBookTest, what_cannot_be_dialled_is_left_out) {
    book_.add(Multiaddr(), DialBook::Origin::given, start);
    book_.add(address("/ip4/1.2.3.4"), DialBook::Origin::given, start);
    EXPECT_EQ(book_.size(), 0u);
}

TEST_F(DialBookTest, a_learnt_address_that_keeps_failing_is_tried_less_often) {
    book_.add(lan, DialBook::Origin::learnt, start);
    auto now = start;
    for (int i = 0; i < 12; ++i) {
        ASSERT_EQ(due(now).size(), 1u);
        book_.failed(lan, now);
        now = book_.deadline();
    }
    EXPECT_EQ(now, start + 11 * 5s + 60s);
}

TEST_F(DialBookTest, only_so_many_are_dialled_at_once) {
    for (int i = 0; i < 20; ++i) {
        book_.add(
            address("/ip4/10.0.0.1/tcp/" + std::to_string(i)), DialBook::Origin::given, start
        );
    }
    auto const first = due(start);
    EXPECT_EQ(first.size(), 16u);
    EXPECT_TRUE(due(start).empty());
    EXPECT_EQ(book_.deadline(), TimePoint::max()); // Until one has ended.
    book_.failed(first[0], start);
    EXPECT_EQ(due(start).size(), 1u);
}

TEST(DialBook, a_full_one_drops_what_fails_most_and_nothing_else) {
    DialBook book(peer(1), DialBook::Limits{.entries_max = 2});
    auto const nobody = [](PeerId const&) { return false; };
    auto const one = address("/ip4/10.0.0.1/tcp/1");
    auto const two = address("/ip4/10.0.0.1/tcp/2");
    auto const three = address("/ip4/10.0.0.1/tcp/3");
    book.add(one, DialBook::Origin::given, start);
    book.add(two, DialBook::Origin::learnt, start);
    book.add(three, DialBook::Origin::learnt, start);
    EXPECT_EQ(book.take_due(start, nobody), (std::vector{one, two})); // There was no room.
    book.failed(one, start);
    book.failed(two, start);
    book.add(three, DialBook::Origin::learnt, start);
    EXPECT_EQ(book.take_due(start + 5s, nobody), (std::vector{one, three}));
}

} // namespace
} // namespace exo::net
