// SPDX-License-Identifier: Apache-2.0
//
// Which packets reach Avahi.
#include "net/dnssd/packet_guard.hpp"
#include "net/mdns/packet.hpp"

#include <gtest/gtest.h>

namespace exo::net::dnssd {
namespace {

// One CNAME record, "a.local" for "b.local", in one of the three sections.
Bytes with_cname(std::size_t section) {
    Bytes packet = {0, 0, 0x84, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    packet[7 + 2 * section] = 1;
    append(packet, Bytes{1, 'a', 5, 'l', 'o', 'c', 'a', 'l', 0});
    append(packet, Bytes{0, 5, 0x80, 1, 0, 0, 0, 1, 0, 4});
    append(packet, Bytes{1, 'b', 0xc0, 14});
    return packet;
}

TEST(PacketGuard, lets_what_dns_sd_is_made_of_pass) {
    mdns::Packet packet{.is_response = true};
    packet.questions.push_back({.name = mdns::Name::of("_exo._tcp.local")});
    packet.answers.push_back({
        .name = mdns::Name::of("_exo._tcp.local"),
        .type = mdns::type_ptr,
        .ttl_s = 180,
        .target = mdns::Name::of("one._exo._tcp.local"),
    });
    EXPECT_TRUE(is_fit_for_avahi(mdns::encode(packet)));
}

TEST(PacketGuard, keeps_cname_records_out_in_every_section) {
    for (std::size_t section = 0; section < 3; ++section) {
        auto packet = with_cname(section);
        EXPECT_FALSE(is_fit_for_avahi(packet)) << section;
        packet[22] = 1; // An A record, of four bytes too.
        EXPECT_TRUE(is_fit_for_avahi(packet)) << section;
    }
}

TEST(PacketGuard, keeps_broken_packets_out) {
    EXPECT_FALSE(is_fit_for_avahi({}));
    auto const whole = mdns::encode({.questions = {{.name = mdns::Name::of("a.local")}}});
    for (std::size_t size = 0; size < whole.size(); ++size) {
        EXPECT_FALSE(is_fit_for_avahi(BytesView(whole).first(size))) << size;
    }
    EXPECT_TRUE(is_fit_for_avahi(whole));
    EXPECT_FALSE(is_fit_for_avahi(Bytes(mdns::packet_bytes_max + 1)));
}

} // namespace
} // namespace exo::net::dnssd
