// SPDX-License-Identifier: Apache-2.0
#include "net/peers/message.hpp"
#include "net/wire/tests/words.hpp"

#include <gtest/gtest.h>

namespace exo::net::peers {
namespace {

PeerId peer(std::size_t value) {
    PublicKey key;
    key.bytes.fill(static_cast<std::uint8_t>(value));
    key.bytes[0] = static_cast<std::uint8_t>(value >> 8);
    return PeerId::of(key);
}

Multiaddr numbered(std::size_t number) {
    return address("/ip6/fd00::1234:5678:9abc:def0/tcp/" + std::to_string(number));
}

TEST(PeersMessage, comes_back_as_it_was) {
    Addresses const addresses{
        {peer(1), {address("/ip4/10.0.0.1/tcp/4001"), numbered(7)}},
        {peer(2), {numbered(8)}},
    };
    EXPECT_EQ(decode(encode(addresses)).value(), addresses);
    EXPECT_TRUE(decode(encode({})).value().empty());
}

// docs/protocols/direct-streams.md: field 1 the peers, in each 1 the id and 2 the addresses.
TEST(PeersMessage, has_the_documented_bytes) {
    auto const id = peer(1);
    auto const expected = from_hex(
        "0a32"
        "0a26" +
        to_hex(id.bytes()) +
        "1208"
        "040a000001060fa1"
    );
    EXPECT_EQ(encode({{id, {address("/ip4/10.0.0.1/tcp/4001")}}}), expected.value());
}

TEST(PeersMessage, at_most_128_peers_and_8_addresses_of_each_are_said) {
    Addresses many;
    for (std::size_t i = 1; i <= 300; ++i) {
        for (std::size_t port = 1; port <= 20; ++port) {
            many[peer(i)].push_back(numbered(port));
        }
    }
    auto const said = decode(encode(many)).value();
    EXPECT_EQ(said.size(), peers_max);
    EXPECT_EQ(said.begin()->second.size(), addresses_per_peer_max);
}

TEST(PeersMessage, what_is_too_long_is_refused) {
    EXPECT_EQ(decode(Bytes(message_bytes_max + 1)).error().code(), Errc::limit);
    auto const one = encode({{peer(1), {numbered(1)}}});
    Bytes many;
    for (std::size_t i = 0; i <= peers_max; ++i) {
        append(many, one);
    }
    EXPECT_EQ(decode(many).error().code(), Errc::limit);
    Bytes same; // The same peer twice is one.
    auto const eight = encode({{peer(1), std::vector<Multiaddr>(8, numbered(1))}});
    append(same, eight);
    EXPECT_TRUE(decode(same));
    append(same, eight);
    EXPECT_EQ(decode(same).error().code(), Errc::limit);
}

TEST(PeersMessage, garbage_is_refused_and_unknown_addresses_are_skipped) {
    EXPECT_EQ(decode(as_bytes("garbage")).error().code(), Errc::protocol);
    EXPECT_EQ(decode(from_hex("0a030a0178").value()).error().code(), Errc::protocol); // No id.
    auto const id = peer(1);
    // /ip4/10.0.0.1/udp/1: a kind that we do not know.
    auto const udp = from_hex(
        "0a33"
        "0a26" +
        to_hex(id.bytes()) +
        "1209"
        "040a00000191020001"
    );
    EXPECT_EQ(decode(udp.value()).value(), (Addresses{{id, {}}}));
}

} // namespace
} // namespace exo::net::peers
