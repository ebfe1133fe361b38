// SPDX-License-Identifier: Apache-2.0
#include "net/wire/peer_id.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace exo::net {
namespace {

// specs/libp2p.md 13, made by rust-libp2p from the seed 01 01 01 ...
constexpr auto key_hex = "8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
constexpr auto peer_hex =
    "0024080112208a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c";
constexpr auto peer_text = "12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5";

PublicKey key_of(std::string_view hex) {
    PublicKey key;
    auto const bytes = from_hex(hex).value();
    std::ranges::copy(bytes, key.bytes.begin());
    return key;
}

TEST(PeerId, of_a_key_is_the_vector_of_rust) {
    auto const peer = PeerId::of(key_of(key_hex));
    EXPECT_EQ(to_hex(peer.bytes()), peer_hex);
    EXPECT_EQ(peer.text(), peer_text);
    EXPECT_EQ(peer.short_text(), "SUKPH5");
    EXPECT_EQ(peer.public_key(), key_of(key_hex));
}

TEST(PeerId, is_read_from_its_text_and_its_bytes) {
    auto const peer = PeerId::of(key_of(key_hex));
    EXPECT_EQ(PeerId::parse(peer_text).value(), peer);
    EXPECT_EQ(PeerId::from_bytes(from_hex(peer_hex).value()).value(), peer);
}

// From the peer-ids specification of libp2p: the same id in its three forms.
TEST(PeerId, a_cid_is_the_same_peer_as_its_base58) {
    auto const base58 = PeerId::parse("QmYyQSo1c1Ym7orWxLYvCrM2EmxFTANf8wXmmE7DWjhx5N").value();
    auto const cid =
        PeerId::parse("bafzbeie5745rpv2m6tjyuugywy4d5ewrqgqqhfnf445he3omzpjbx5xqxe").value();
    EXPECT_EQ(base58.bytes().size(), 34u);
    EXPECT_EQ(base58.bytes(), cid.bytes());
    EXPECT_FALSE(base58.public_key()); // Only its hash is known.
}

TEST(PeerId, none_is_empty) {
    EXPECT_TRUE(PeerId().empty());
    EXPECT_EQ(PeerId().text(), "");
    EXPECT_FALSE(PeerId().public_key());
}

TEST(PeerId, other_texts_are_refused) {
    for (auto const* const text :
         {"", "1", "hello", "12D3KooW", "QmYy", "b", "bafz", "z", "zz", "b1", "12D3Koo0"}) {
        EXPECT_EQ(PeerId::parse(text).error().code(), Errc::invalid_argument) << text;
    }
    EXPECT_FALSE(PeerId::parse(std::string(100'000, 'b')));
}

TEST(PeerId, every_cut_of_its_bytes_is_refused) {
    auto const bytes = from_hex(peer_hex).value();
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        EXPECT_FALSE(PeerId::from_bytes(BytesView(bytes).first(length))) << length;
    }
}

TEST(PublicKey, is_read_only_in_its_canonical_form) {
    auto const key = key_of(key_hex);
    auto const bytes = to_protobuf(key);
    EXPECT_EQ(to_hex(bytes), std::string("08011220") + key_hex);
    EXPECT_EQ(public_key_from_protobuf(bytes).value(), key);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        EXPECT_FALSE(public_key_from_protobuf(BytesView(bytes).first(length))) << length;
    }
    auto longer = bytes;
    longer.push_back(0);
    EXPECT_EQ(public_key_from_protobuf(longer).error().code(), Errc::protocol);
    auto rsa = bytes;
    rsa[1] = 0;
    EXPECT_EQ(public_key_from_protobuf(rsa).error().code(), Errc::unsupported);
}

} // namespace
} // namespace exo::net
