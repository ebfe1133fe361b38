// SPDX-License-Identifier: Apache-2.0
#include "net/pnet/session.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace exo::net::pnet {
namespace {

Nonce counting_nonce() {
    Nonce nonce{};
    std::iota(nonce.begin(), nonce.end(), std::uint8_t{0});
    return nonce;
}

// specs/libp2p.md 13: PSK of "test", nonce 00 01 02 .. 17, over three blocks of 64.
Bytes key_stream() {
    return from_hex("35660582b660a12efa55b0c045638d2b10611837633a9b400e89456d4881f3244611c8f0e6923e"
                    "a628a12a"
                    "c82f12ec4654d0c7eba1aa64122d08e068aab69dedc117c110e7ae05de56406bdcf2bb5cabeba0"
                    "2bd22594"
                    "a87e18b09de969e18b6ea9824ea3d8b1e1a6bf26948422e6474fcae2ff2d2d1079016d73ce0cfe"
                    "1784f9ee"
                    "0e1d936fb9e42e5176a96e90c6a86d9ee0a96fdb3311fa818fe62065f47741b371d58272f228dd"
                    "6dbe6b85"
                    "b944bef0ddf552cddba1d1b5e79b63c6f4aa7c43")
        .value();
}

TEST(PnetKeyStream, any_cut_gives_the_vector_of_rust) {
    auto const expected = key_stream();
    for (std::size_t size = 1; size <= expected.size(); ++size) {
        KeyStream stream(psk_of_namespace("test"), counting_nonce());
        Bytes bytes(expected.size(), 0);
        for (std::size_t at = 0; at < bytes.size(); at += size) {
            stream.apply(std::span(bytes).subspan(at, std::min(size, bytes.size() - at)));
        }
        ASSERT_EQ(bytes, expected) << "pieces of " << size;
    }
}

TEST(PnetKeyStream, uneven_cuts_over_many_blocks_give_the_same_as_one_call) {
    Bytes whole(10'000, 7);
    Bytes pieces = whole;
    KeyStream(psk_of_namespace("test"), counting_nonce()).apply(whole);
    KeyStream stream(psk_of_namespace("test"), counting_nonce());
    std::size_t at = 0;
    for (std::size_t size = 0; at < pieces.size(); size = (size + 13) % 200) {
        auto const length = std::min(size, pieces.size() - at);
        stream.apply(std::span(pieces).subspan(at, length));
        at += length;
    }
    EXPECT_EQ(pieces, whole);
}

TEST(PnetSession, sends_its_nonce_in_the_clear) {
    Session const session(psk_of_namespace("test"), counting_nonce());
    EXPECT_EQ(to_hex(session.hello()), "000102030405060708090a0b0c0d0e0f1011121314151617");
}

TEST(PnetSession, any_cut_of_nonce_and_data_is_understood_by_who_has_the_key) {
    auto const plain = as_bytes("\x13/multistream/1.0.0\n\x07/noise\n and more, over one block");
    Session sender(psk_of_namespace("test"), counting_nonce());
    Bytes sent(sender.hello().begin(), sender.hello().end());
    Bytes data(plain.begin(), plain.end());
    sender.encrypt(data);
    append(sent, data);
    for (std::size_t size = 1; size <= sent.size(); ++size) {
        Session receiver(psk_of_namespace("test"), Nonce{});
        Bytes received;
        for (std::size_t at = 0; at < sent.size(); at += size) {
            auto const end = std::min(at + size, sent.size());
            Bytes piece(
                sent.begin() + static_cast<long>(at), sent.begin() + static_cast<long>(end)
            );
            append(received, receiver.decrypt(piece));
        }
        ASSERT_EQ(as_text(received), as_text(plain)) << "pieces of " << size;
    }
}

TEST(PnetSession, the_directions_are_independent) {
    Session a(psk_of_namespace("test"), counting_nonce());
    Session b(psk_of_namespace("test"), Nonce{9});
    Bytes hello_of_b(b.hello().begin(), b.hello().end());
    EXPECT_TRUE(a.decrypt(hello_of_b).empty());
    Bytes out{1, 2, 3};
    a.encrypt(out); // What a sends does not move what a receives.
    Bytes in{4, 5, 6};
    b.encrypt(in);
    auto const plain = a.decrypt(in);
    EXPECT_EQ(Bytes(plain.begin(), plain.end()), (Bytes{4, 5, 6}));
}

TEST(PnetSession, another_key_gives_garbage) {
    Session sender(psk_of_namespace("test"), counting_nonce());
    Session receiver(psk_of_namespace("other"), Nonce{});
    Bytes hello(sender.hello().begin(), sender.hello().end());
    EXPECT_TRUE(receiver.decrypt(hello).empty());
    Bytes data(64, 0);
    sender.encrypt(data);
    auto const plain = receiver.decrypt(data);
    EXPECT_NE(Bytes(plain.begin(), plain.end()), Bytes(64, 0));
}

} // namespace
} // namespace exo::net::pnet
