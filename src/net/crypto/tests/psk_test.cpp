// SPDX-License-Identifier: Apache-2.0
#include "base/bytes.hpp"
#include "net/crypto/psk.hpp"

#include <gtest/gtest.h>

namespace exo::net {
namespace {

// specs/libp2p.md 13; the same in rust, js and go.
TEST(Psk, of_a_namespace_is_that_of_the_other_libraries) {
    EXPECT_EQ(
        to_hex(psk_of_namespace("v0.0.1")),
        "b343c24112fc9334a2ada634f84a2783bdca03551b0b7282f62b348b93fe9504"
    );
    EXPECT_EQ(
        to_hex(psk_of_namespace("test")),
        "ba07797f054117693259de31c1440e0319f9b5157e7e244bd089e8d1b0e7be3c"
    );
    EXPECT_EQ(
        to_hex(psk_of_namespace("")),
        "3e200345be066e178cb32c029fdc0f28f323b681db76719eaaa4db9742035d42"
    );
}

TEST(Psk, a_fingerprint_tells_keys_apart_and_nothing_of_them) {
    auto const one = psk_of_namespace("one");
    auto other = one;
    other[31] ^= 1;
    EXPECT_EQ(fingerprint(one), fingerprint(one));
    EXPECT_NE(fingerprint(one), fingerprint(other));
    EXPECT_EQ(fingerprint(one).size(), 9u);
    EXPECT_EQ(to_hex(one).find(fingerprint(one).substr(0, 4)), std::string::npos);
}

} // namespace
} // namespace exo::net
