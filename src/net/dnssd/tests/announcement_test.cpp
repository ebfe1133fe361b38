// SPDX-License-Identifier: Apache-2.0
//
// The TXT record as it is written, as others may write it, and the names.
#include "base/text.hpp"
#include "net/dnssd/announcement.hpp"
#include "net/wire/tests/words.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace exo::net::dnssd {
namespace {

constexpr char const* id = "12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5";
constexpr char const* other_id = "12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq";

PeerId self() {
    return PeerId::parse(id).value();
}

Announcement announcement() {
    return {
        .device_id = id,
        .os_type = "linux",
        .memory_bytes = 34359738368,
        .gpu_memory_bytes = 25769803776,
        .rdma_support = true,
        .version = "0.1.0",
        .network = "0123456789abcdef",
        .api = "lan",
        .addresses = {address("/ip4/192.168.1.5/tcp/4001").with_peer(self())},
    };
}

std::size_t bytes_of(std::vector<std::string> const& texts) {
    return std::accumulate(
        texts.begin(),
        texts.end(),
        std::size_t{0},
        [](auto sum, auto const& one) { return sum + 1 + one.size(); }
    );
}

std::vector<std::string> minimal(std::vector<std::string> more = {}) {
    std::vector<std::string> texts = {std::string("device_id=") + id, "network=public"};
    texts.insert(texts.end(), more.begin(), more.end());
    return texts;
}

TEST(Announcement, is_written_as_the_seeds_and_the_documentation_name_it) {
    std::vector<std::string> const expected = {
        "txtvers=1",
        std::string("device_id=") + id,
        "network=0123456789abcdef",
        "version=0.1.0",
        "os_type=linux",
        "memory=34359738368",
        "gpu_memory=25769803776",
        "rdma_support=true",
        "api=lan",
        std::string("addr1=/ip4/192.168.1.5/tcp/4001/p2p/") + id,
    };
    EXPECT_EQ(encode_txt(announcement()), expected);
}

TEST(Announcement, is_read_as_it_was_written) {
    EXPECT_EQ(decode_txt(encode_txt(announcement())).value(), announcement());
}

TEST(Announcement, keeps_the_best_addresses_when_there_are_too_many) {
    auto many = announcement();
    many.addresses.clear();
    for (int i = 0; i < 40; ++i) {
        auto const text = "/ip6/fd00:1111:2222:3333:4444:5555:6666:" + std::to_string(1000 + i);
        many.addresses.push_back(address(text + "/tcp/40001").with_peer(self()));
    }
    auto const texts = encode_txt(many);
    EXPECT_LE(bytes_of(texts), texts_bytes_max);
    auto const read = decode_txt(texts).value();
    ASSERT_EQ(read.addresses.size(), addresses_max);
    EXPECT_TRUE(std::ranges::equal(read.addresses, std::span(many.addresses).first(addresses_max)));
}

TEST(Announcement, leaves_out_addresses_that_do_not_fit_one_packet) {
    auto many = announcement();
    many.version = std::string(240, '1');
    many.os_type = std::string(240, 'x');
    many.api = std::string(240, 'y');
    many.addresses.assign(addresses_max, many.addresses.at(0));
    auto const texts = encode_txt(many);
    EXPECT_LE(bytes_of(texts), texts_bytes_max);
    EXPECT_LT(texts.size(), 9 + addresses_max);
}

TEST(Announcement, of_strangers_is_read_without_trust) {
    auto const read = decode_txt(minimal({
        "NETWORK=second",           // The first of a key counts, in any case.
        "=nothing",                 // No key.
        "flag",                     // No value.
        "Version=1.0=2",            // Keys have no case; a value may have any character.
        "memory=12x",               // No number.
        "gpu_memory=-1",            // None either.
        "os_type=evil\x1b[2J",      // Would do things to a terminal.
        "addr1=/ip4/1.2.3.4/tcp/1", // Whose?
        std::string("addr2=/ip4/1.2.3.4/tcp/2/p2p/") + other_id,
        std::string("addr3=/ip4/1.2.3.4/tcp/3/p2p/") + id,
        std::string("addr4=/ip4/1.2.3.4/tcp/3/p2p/") + id,
        std::string("addr5=/ip4/1.2.3.4/udp/3/p2p/") + id,
        std::string("addr6=/p2p/") + id,
        std::string("addr9=/ip4/1.2.3.4/tcp/9/p2p/") + id,
    }));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->network, "public");
    EXPECT_EQ(read->version, "1.0=2");
    EXPECT_EQ(read->memory_bytes, 0U);
    EXPECT_EQ(read->gpu_memory_bytes, 0U);
    EXPECT_FALSE(read->rdma_support);
    EXPECT_EQ(read->os_type, "");
    EXPECT_EQ(read->addresses, (std::vector{address("/ip4/1.2.3.4/tcp/3").with_peer(self())}));
}

TEST(Announcement, that_is_not_a_nodes_is_refused) {
    for (auto const& texts : std::vector<std::vector<std::string>>{
             {},
             {""},
             {std::string("device_id=") + id},
             {"network=public"},
             {"device_id=", "network=public"},
             {"device_id=" + std::string(200, 'x'), "network=public"},
         }) {
        auto const read = decode_txt(texts);
        ASSERT_FALSE(read.has_value());
        EXPECT_EQ(read.error().code(), Errc::protocol);
    }
}

TEST(Announcement, that_is_too_long_is_refused) {
    auto const one = decode_txt(minimal({std::string(text_bytes_max + 1, 'x')}));
    auto const all = decode_txt(minimal(std::vector<std::string>(20, std::string(250, 'x'))));
    EXPECT_EQ(one.error().code(), Errc::limit);
    EXPECT_EQ(all.error().code(), Errc::limit);
    EXPECT_TRUE(decode_txt(minimal({std::string(text_bytes_max, 'x')})).has_value());
}

TEST(NetworkHash, tells_networks_apart_and_does_not_show_the_key) {
    auto const key = psk_of_namespace("a");
    auto const hash = network_hash(key);
    EXPECT_EQ(hash.size(), 16U);
    EXPECT_EQ(hash, network_hash(psk_of_namespace("a")));
    EXPECT_NE(hash, network_hash(psk_of_namespace("b")));
    EXPECT_EQ(to_hex(key).find(hash), std::string::npos);
    EXPECT_EQ(network_hash(std::nullopt), "public");
}

// Nodes of different versions must agree on it: SHA-256 of "exo dns-sd network\n" and the key.
TEST(NetworkHash, of_the_default_namespace_stays_what_it_is) {
    EXPECT_EQ(network_hash(psk_of_namespace("v0.0.1")), "640eacf5df9b6d94");
}

TEST(Names, get_a_number_when_they_are_taken) {
    EXPECT_EQ(numbered_name("macbook-pro", 1), "macbook-pro");
    EXPECT_EQ(numbered_name("macbook-pro", 2), "macbook-pro-2");
    EXPECT_EQ(numbered_name("pi-4", 2), "pi-4-2") << "pi-5 may be another machine";
}

TEST(Names, leave_room_for_the_number) {
    EXPECT_EQ(numbered_name(std::string(70, 'a'), 12), std::string(60, 'a') + "-12");
    std::string umlauts;
    for (int i = 0; i < 40; ++i) {
        umlauts += "\xc3\xbc";
    }
    auto const name = numbered_name(umlauts, 2);
    EXPECT_LE(name.size(), label_bytes_max);
    EXPECT_TRUE(is_utf8(name)) << "no half of a character";
}

TEST(Names, of_machines_are_made_fit_for_a_label) {
    EXPECT_EQ(instance_name("Anna's Mac.local"), "Anna's Mac.local");
    EXPECT_EQ(instance_name("a\nb\x7f"), "ab");
    EXPECT_EQ(instance_name(""), "exo");
    EXPECT_EQ(instance_name("\xff\xfe"), "exo");
    EXPECT_EQ(instance_name(std::string(100, 'a')).size(), label_bytes_max);
}

TEST(Names, of_hosts_are_of_one_node_alone_and_valid_in_dns) {
    EXPECT_EQ(host_label(self()), "exo-3v3fyksukph5");
    EXPECT_NE(host_label(self()), host_label(PeerId::parse(other_id).value()));
}

TEST(AnnouncedAddresses, begin_with_those_that_need_no_interface) {
    std::vector<Multiaddr> const listen = {
        address("/ip4/0.0.0.0/tcp/4001"), address("/ip6/::/tcp/4002")
    };
    auto const addresses = announced_addresses(
        listen, {"fe80::1", "169.254.7.7", "fd00::1", "192.168.1.5", "fd00::1"}, self()
    );
    std::vector<std::string> texts;
    for (auto const& one : addresses) {
        EXPECT_EQ(one.peer(), self());
        texts.push_back(one.without_peer().text());
    }
    std::vector<std::string> const expected = {
        "/ip4/192.168.1.5/tcp/4001",
        "/ip6/fd00::1/tcp/4002",
        "/ip4/169.254.7.7/tcp/4001",
        "/ip6/fe80::1/tcp/4002",
    };
    EXPECT_EQ(texts, expected);
}

} // namespace
} // namespace exo::net::dnssd
