// SPDX-License-Identifier: Apache-2.0
#include "net/wire/multiaddr.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

constexpr auto peer_text = "12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5";

struct Row {
    char const* text;
    char const* bytes;
};

class MultiaddrVectors : public testing::TestWithParam<Row> {};

TEST_P(MultiaddrVectors, text_and_bytes_are_the_same_address) {
    auto const bytes = from_hex(GetParam().bytes).value();
    auto const address = Multiaddr::parse(GetParam().text);
    ASSERT_TRUE(address) << address.error().text();
    EXPECT_EQ(to_hex(address->bytes()), GetParam().bytes);
    EXPECT_EQ(Multiaddr::from_bytes(bytes).value(), *address);
    EXPECT_EQ(address->text(), GetParam().text);
}

// An address is also a valid one when it is cut between two parts, so few cuts are errors; none
// may read past the end.
TEST_P(MultiaddrVectors, a_cut_of_the_bytes_is_refused_or_a_shorter_address) {
    auto const bytes = from_hex(GetParam().bytes).value();
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        auto const cut = BytesView(bytes).first(length);
        if (auto const address = Multiaddr::from_bytes(cut)) {
            EXPECT_EQ(address->bytes(), Bytes(cut.begin(), cut.end()));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Rust,
    MultiaddrVectors,
    testing::Values(
        Row{"/ip4/127.0.0.1/tcp/4001", "047f000001060fa1"},
        Row{"/ip4/0.0.0.0/tcp/0", "0400000000060000"},
        Row{"/ip6/::1/tcp/4001", "2900000000000000000000000000000001060fa1"},
        Row{"/ip4/10.1.2.3/tcp/65535/p2p/12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5",
            "040a01020306ffffa503260024080112208a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf374"
            "88"
            "01b40f6f5c"},
        Row{"/dns4/exo.local/tcp/80",
            "3609"
            "65786f2e6c6f63616c"
            "060050"},
        Row{"/ip6zone/eth0/ip6/fe80::1/tcp/1",
            "2a0465746830"
            "29fe800000000000000000000000000001"
            "060001"}
    )
);

TEST(Multiaddr, the_target_is_the_host_and_its_port) {
    auto const target = [](char const* text) { return Multiaddr::parse(text)->tcp_target(); };
    EXPECT_EQ(target("/ip4/1.2.3.4/tcp/5"), (TcpTarget{AddrPart::ip4, "1.2.3.4", "", 5}));
    EXPECT_EQ(target("/dns/h/tcp/5"), (TcpTarget{AddrPart::dns, "h", "", 5}));
    EXPECT_EQ(
        target("/ip6zone/eth0/ip6/fe80::1/tcp/5"), (TcpTarget{AddrPart::ip6, "fe80::1", "eth0", 5})
    );
    EXPECT_FALSE(target("/ip4/1.2.3.4"));
    EXPECT_FALSE(target("/tcp/5"));
    EXPECT_FALSE(target("/tcp/5/tcp/5"));
    EXPECT_FALSE(target("/ip6zone/eth0/ip4/1.2.3.4/tcp/5"));
    EXPECT_FALSE(Multiaddr().tcp_target());
}

TEST(Multiaddr, the_peer_can_be_added_replaced_and_removed) {
    auto const peer = PeerId::parse(peer_text).value();
    auto const bare = Multiaddr::parse("/ip4/1.2.3.4/tcp/5").value();
    EXPECT_FALSE(bare.peer());
    EXPECT_EQ(bare.with_peer(peer).peer(), peer);
    EXPECT_EQ(bare.with_peer(peer).with_peer(peer), bare.with_peer(peer));
    EXPECT_EQ(bare.with_peer(peer).without_peer(), bare);
}

TEST(Multiaddr, the_old_name_of_p2p_is_understood) {
    auto const address = Multiaddr::parse(std::string("/ip4/1.2.3.4/tcp/5/ipfs/") + peer_text);
    EXPECT_EQ(address->text(), std::string("/ip4/1.2.3.4/tcp/5/p2p/") + peer_text);
}

TEST(Multiaddr, other_texts_are_refused_by_name) {
    for (auto const* const text :
         {"",
          "/",
          "ip4/1.2.3.4",
          "/ip4",
          "/ip4/1.2.3",
          "/ip4/1.2.3.4/",
          "/ip4/1.2.3.4/tcp",
          "/ip4/1.2.3.4/tcp/65536",
          "/ip4/1.2.3.4/tcp/-1",
          "/ip4/1.2.3.4/udp/1",
          "/ip6/1.2.3.4/tcp/1",
          "/dns4//tcp/1",
          "/p2p/nobody"}) {
        EXPECT_EQ(Multiaddr::parse(text).error().code(), Errc::invalid_argument) << text;
    }
    std::string many;
    for (int i = 0; i < 100; ++i) {
        many += "/tcp/1";
    }
    EXPECT_FALSE(Multiaddr::parse(many));
}

TEST(Multiaddr, other_bytes_are_refused) {
    for (auto const* const bytes : {
             "",           // no address at all
             "04",         // ip4 without a value
             "91020fa1",   // udp
             "3600",       // an empty name
             "36032f2f2f", // a name of slashes
             "36ff01",     // a name that is cut off
             "36808001",   // a name of 16384 bytes
             "a503020011", // no peer id
             "8404",       // a varint longer than needed
             "ffffffffffffffffff",
         }) {
        EXPECT_EQ(Multiaddr::from_bytes(from_hex(bytes).value()).error().code(), Errc::protocol)
            << bytes;
    }
}

struct Typed {
    char const* text;
    char const* address;
};

class TypedAddress : public testing::TestWithParam<Typed> {};

TEST_P(TypedAddress, becomes_a_multiaddr) {
    auto const address = parse_address(GetParam().text);
    ASSERT_TRUE(address) << address.error().text();
    EXPECT_EQ(address->text(), GetParam().address);
}

INSTANTIATE_TEST_SUITE_P(
    People,
    TypedAddress,
    testing::Values(
        Typed{"10.0.0.1:4001", "/ip4/10.0.0.1/tcp/4001"},
        Typed{"studio.local:80", "/dns/studio.local/tcp/80"},
        Typed{"[::1]:4001", "/ip6/::1/tcp/4001"},
        Typed{"[fe80::1%eth0]:4001", "/ip6zone/eth0/ip6/fe80::1/tcp/4001"},
        Typed{"/ip4/10.0.0.1/tcp/4001", "/ip4/10.0.0.1/tcp/4001"}
    )
);

TEST(ParseAddress, what_is_no_address_is_refused_with_the_accepted_forms) {
    for (auto const* const text :
         {"",
          "10.0.0.1",
          ":80",
          "host:",
          "host:99999",
          "::1:80",
          "a b:80",
          "[::1]",
          "[x:y]:80",
          "10.0.0.1%eth0:80",
          "h/i:80"}) {
        auto const address = parse_address(text);
        ASSERT_FALSE(address) << text;
        EXPECT_EQ(address.error().code(), Errc::invalid_argument);
        EXPECT_NE(address.error().text().find("host:port"), std::string::npos);
    }
}

} // namespace
} // namespace exo::net
