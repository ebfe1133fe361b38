// SPDX-License-Identifier: Apache-2.0
//
// What must hold on any machine that runs these tests.
#include "net/interfaces/change_socket.hpp"
#include "net/interfaces/scan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <unistd.h>

namespace exo::net {
namespace {

TEST(Scan, finds_loopback_and_what_it_is) {
    auto const found = scan_interfaces();
    ASSERT_TRUE(found) << found.error().text();
    auto const is_loopback = [](Interface const& one) {
        return one.kind == InterfaceKind::loopback;
    };
    auto const loopback = std::ranges::find_if(*found, is_loopback);
    ASSERT_NE(loopback, found->end());
    EXPECT_TRUE(loopback->is_up);
    auto const ip = Ip::parse("127.0.0.1").value();
    auto const address = std::ranges::find(loopback->addresses, ip, &InterfaceAddress::ip);
    ASSERT_NE(address, loopback->addresses.end());
    EXPECT_EQ(address->prefix_bits, 8U);
    for (auto const& one : *found) {
        EXPECT_NE(one.index, 0U);
        EXPECT_FALSE(one.name.empty());
        for (auto const& own : one.addresses) {
            EXPECT_LE(own.prefix_bits, own.ip.is_ip4() ? 32U : 128U) << one.name;
            EXPECT_EQ(own.ip.is_loopback(), is_loopback(one)) << one.name << ' ' << own.text;
        }
    }
}

TEST(Scan, the_same_machine_gives_the_same_answer) {
    EXPECT_EQ(scan_interfaces().value(), scan_interfaces().value());
}

TEST(Scan, the_way_to_loopback_begins_at_loopback) {
    EXPECT_EQ(local_ip_towards("127.0.0.1"), "127.0.0.1");
    EXPECT_FALSE(local_ip_towards("nonsense"));
}

TEST(ChangeSocket, can_be_drained_when_nothing_has_happened) {
    auto socket = ChangeSocket::open();
    if (!socket) {
        GTEST_SKIP() << socket.error().text();
    }
    auto const descriptor = socket->release();
    ChangeSocket::drain(descriptor); // Returns: it does not wait.
    ::close(descriptor);
}

} // namespace
} // namespace exo::net
