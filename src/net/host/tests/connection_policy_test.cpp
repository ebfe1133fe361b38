// SPDX-License-Identifier: Apache-2.0
#include "net/host/connection_policy.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

using Indices = std::vector<std::size_t>;
using Held = std::vector<HeldConnection>;

PeerId peer(std::uint8_t value) {
    PublicKey key;
    key.bytes.fill(value);
    return PeerId::of(key);
}

auto const smaller = peer(1);
auto const larger = peer(2);
constexpr HeldConnection dialled_by_us{.outbound = true};
constexpr HeldConnection dialled_by_peer{.outbound = false};

TEST(ConnectionPolicy, exo_peers_prefer_the_one_that_the_smaller_id_has_dialled) {
    Held const of_smaller{dialled_by_peer, dialled_by_us};
    Held const of_larger{dialled_by_us, dialled_by_peer}; // The same two, seen from the other end.
    EXPECT_EQ(judge_connections(smaller, larger, PeerKind::exo, of_smaller).preferred, 1u);
    EXPECT_EQ(judge_connections(larger, smaller, PeerKind::exo, of_larger).preferred, 1u);
}

TEST(ConnectionPolicy, only_the_smaller_id_closes_the_others) {
    Held const two{dialled_by_peer, dialled_by_us};
    EXPECT_EQ(judge_connections(smaller, larger, PeerKind::exo, two).surplus, Indices{0});
    EXPECT_TRUE(judge_connections(larger, smaller, PeerKind::exo, two).surplus.empty());
}

TEST(ConnectionPolicy, without_one_of_the_smaller_id_the_oldest_stays) {
    Held const two{dialled_by_peer, dialled_by_peer};
    auto const verdict = judge_connections(smaller, larger, PeerKind::exo, two);
    EXPECT_EQ(verdict.preferred, 0u);
    EXPECT_EQ(verdict.surplus, Indices{1});
}

TEST(ConnectionPolicy, B074_a_lan_is_preferred_to_an_overlay_whoever_dialled) {
    Held const two{{.outbound = true, .rank = 1}, {.outbound = false, .rank = 0}};
    for (auto const kind : {PeerKind::unknown, PeerKind::exo, PeerKind::foreign}) {
        EXPECT_EQ(judge_connections(smaller, larger, kind, two).preferred, 1u);
        EXPECT_EQ(judge_connections(larger, smaller, kind, two).preferred, 1u);
    }
    EXPECT_EQ(judge_connections(smaller, larger, PeerKind::exo, two).surplus, Indices{0});
}

TEST(ConnectionPolicy, a_connection_with_direct_streams_is_never_closed) {
    Held const two{{.outbound = false, .direct_streams = 1}, dialled_by_us};
    EXPECT_TRUE(judge_connections(smaller, larger, PeerKind::exo, two).surplus.empty());
    Held many(9, dialled_by_peer);
    many.back().direct_streams = 1;
    EXPECT_TRUE(judge_connections(larger, smaller, PeerKind::exo, many).over_limit.empty());
}

TEST(ConnectionPolicy, a_foreign_peer_may_have_four) {
    Held const five(5, dialled_by_peer);
    auto const verdict = judge_connections(smaller, larger, PeerKind::foreign, five);
    EXPECT_EQ(verdict.preferred, 0u);
    EXPECT_TRUE(verdict.surplus.empty());
    EXPECT_EQ(verdict.over_limit, Indices{4});
}

TEST(ConnectionPolicy, a_peer_that_has_not_said_what_it_is_may_have_eight) {
    EXPECT_TRUE(judge_connections(smaller, larger, PeerKind::unknown, Held(8, dialled_by_us))
                    .over_limit.empty());
    EXPECT_EQ(
        judge_connections(smaller, larger, PeerKind::unknown, Held(9, dialled_by_us)).over_limit,
        Indices{8}
    );
}

TEST(ConnectionPolicy, one_connection_is_always_right) {
    for (auto const kind : {PeerKind::unknown, PeerKind::exo, PeerKind::foreign}) {
        auto const verdict = judge_connections(smaller, larger, kind, Held{dialled_by_peer});
        EXPECT_EQ(verdict.preferred, 0u);
        EXPECT_TRUE(verdict.surplus.empty());
        EXPECT_TRUE(verdict.over_limit.empty());
    }
}

} // namespace
} // namespace exo::net
