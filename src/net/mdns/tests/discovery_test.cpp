// SPDX-License-Identifier: Apache-2.0
//
// Finding peers: when we ask, what we answer, and what recorded answers of rust, js and go teach
// us.
#include "net/mdns/discovery.hpp"
#include "net/wire/tests/words.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <set>

namespace exo::net::mdns {
namespace {

constexpr TimePoint start{};
LinkId const link{1};

std::vector<OutgoingPacket> packets_of(Discovery& discovery) {
    std::vector<OutgoingPacket> packets;
    while (auto packet = discovery.take_packet()) {
        packets.push_back(std::move(*packet));
    }
    return packets;
}

std::vector<Discovered> events_of(Discovery& discovery) {
    std::vector<Discovered> events;
    while (auto event = discovery.next_event()) {
        events.push_back(std::move(*event));
    }
    return events;
}

// A node with one link, past its first query.
struct Node {
    Discovery discovery;

    explicit Node(int number, std::vector<Multiaddr> addresses = {}, Options options = {})
        : discovery(peer(number), Random(static_cast<std::uint64_t>(number)), options) {
        discovery.link_up(link, std::move(addresses), start);
        discovery.on_time(start);
        EXPECT_EQ(packets_of(discovery).size(), 1U);
    }
};

Bytes query(std::uint16_t id) {
    Packet packet{.id = id};
    packet.questions.push_back({.name = Name::of(service)});
    return encode(packet);
}

Bytes answer_with(std::string const& text, std::uint32_t ttl_s = 2500) {
    Packet packet{.is_response = true};
    Name const name({"x"});
    packet.answers.push_back(
        {.name = Name::of(service), .type = type_ptr, .ttl_s = ttl_s, .target = name}
    );
    packet.additional.push_back(
        {.name = name, .type = type_txt, .ttl_s = ttl_s, .texts = {"dnsaddr=" + text}}
    );
    return encode(packet);
}

Source const lan_source{.ip = "10.77.0.2", .zone = "eth0"};

std::vector<Discovered> learnt(std::string const& text, Source const& source) {
    Node node(1);
    node.discovery.receive(link, answer_with(text), source, start);
    return events_of(node.discovery);
}

// The recorded response of the second peer of a scene.
Bytes recorded_answer(std::string const& scene) {
    std::ifstream file(EXO_SOURCE_DIR "/testdata/libp2p/wire.json");
    auto const vectors = nlohmann::json::parse(file);
    for (auto const& entry : vectors.at("mdns").at(scene)) {
        auto const from = entry.at("from").get<std::string>();
        if (entry.at("flags") == "8400" && from.starts_with("10.77.0.2:")) {
            return from_hex(entry.at("hex").get<std::string>()).value();
        }
    }
    ADD_FAILURE() << scene;
    return {};
}

// When a node asks, until `end`; it meets `heard` (if any) in the first second.
std::vector<Duration> query_times(Duration end, Bytes const& heard = {}) {
    Discovery discovery(peer(1), Random(1));
    EXPECT_EQ(discovery.deadline(), TimePoint::max());
    discovery.link_up(link, {}, start);
    if (!heard.empty()) {
        discovery.receive(link, heard, lan_source, start);
        EXPECT_FALSE(events_of(discovery).empty());
    }
    std::vector<Duration> times;
    while (discovery.deadline() < start + end) {
        auto const now = discovery.deadline();
        discovery.on_time(now);
        for (auto const& packet : packets_of(discovery)) {
            auto const decoded = decode(packet.bytes).value();
            EXPECT_FALSE(decoded.is_response);
            EXPECT_EQ(decoded.questions, std::vector{Question{.name = Name::of(service)}});
            times.push_back(now - start);
        }
    }
    return times;
}

TEST(MdnsQuery, comes_at_0_1_3_and_7_seconds_then_each_30_s_and_after_an_hour_each_1500_s) {
    auto const times = query_times(10'000s);
    ASSERT_GE(times.size(), 100U);
    EXPECT_EQ(
        std::vector(times.begin(), times.begin() + 7),
        (std::vector<Duration>{0s, 1s, 3s, 7s, 15s, 31s, 61s})
    );
    for (std::size_t i = 6; i < times.size(); ++i) {
        EXPECT_EQ(times[i] - times[i - 1], times[i - 1] < 1h + 30s ? 30s : 1500s);
    }
    EXPECT_EQ(times.back() - times[times.size() - 2], 1500s);
}

TEST(MdnsQuery, goes_on_after_something_was_found) {
    EXPECT_EQ(query_times(1h, recorded_answer("rust-and-rust")), query_times(1h));
}

TEST(MdnsQuery, is_left_to_others_who_have_just_asked) {
    Node node(1);
    auto now = start;
    for (; now < start + 61s; now = node.discovery.deadline()) {
        node.discovery.on_time(now);
    }
    (void)packets_of(node.discovery);
    Source const here{.ip = "10.77.0.1", .is_this_machine = true};
    node.discovery.receive(link, query(1), here, start + 62s); // Our own, or a neighbour's.
    EXPECT_EQ(node.discovery.deadline(), start + 61s);
    node.discovery.receive(link, query(1), lan_source, start + 62s);
    EXPECT_GE(node.discovery.deadline(), start + 92s);
    EXPECT_LE(node.discovery.deadline(), start + 93s);
    Node hasty(1); // At the start it asks all the same: it has to be heard itself.
    hasty.discovery.receive(link, query(1), lan_source, start);
    EXPECT_EQ(hasty.discovery.deadline(), start + 1s);
}

// Two groups that grew up apart, on switches that are joined later: nothing tells of it.
TEST(MdnsQuery, networks_that_are_joined_find_each_other_within_30_s) {
    constexpr int half = 4;
    std::vector<Discovery> nodes;
    for (int i = 0; i < 2 * half; ++i) {
        nodes.emplace_back(numbered_peer(i), Random(static_cast<std::uint64_t>(i)));
        auto const port = std::to_string(i + 1);
        auto const ip = "10.0.0." + port;
        nodes.back().link_up(link, {address("/ip4/" + ip + "/tcp/" + port)}, start);
    }
    TimePoint const joined = start + 10min;
    std::map<int, std::set<PeerId>> found;
    for (auto now = start; now < joined + 31s;) {
        for (int i = 0; i < 2 * half; ++i) {
            nodes[static_cast<std::size_t>(i)].on_time(now);
        }
        for (bool quiet = false; !quiet;) {
            quiet = true;
            for (int i = 0; i < 2 * half; ++i) {
                for (auto const& packet : packets_of(nodes[static_cast<std::size_t>(i)])) {
                    quiet = false;
                    for (int j = 0; j < 2 * half; ++j) {
                        if (now < joined && (i < half) != (j < half)) {
                            continue;
                        }
                        Source const from{
                            .ip = "10.0.0." + std::to_string(i + 1), .is_this_machine = i == j
                        };
                        auto& hearer = nodes[static_cast<std::size_t>(j)];
                        hearer.receive(link, packet.bytes, from, now);
                        for (auto const& event : events_of(hearer)) {
                            found[j].insert(event.peer);
                        }
                    }
                }
            }
        }
        auto next = TimePoint::max();
        for (auto const& node : nodes) {
            next = std::min(next, node.deadline());
        }
        now = next;
    }
    for (int i = 0; i < 2 * half; ++i) {
        EXPECT_EQ(found[i].size(), 2U * half - 1) << i;
    }
}

TEST(MdnsQuery, begins_anew_for_each_link_that_comes_up) {
    Node node(1);
    node.discovery.link_up(link, {}, start + 100s); // Not new.
    node.discovery.link_up(LinkId(9), {}, start + 100s);
    node.discovery.link_down(link);
    EXPECT_EQ(node.discovery.deadline(), start + 100s);
    node.discovery.on_time(start + 100s);
    auto const packets = packets_of(node.discovery);
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].link, LinkId(9));
}

TEST(MdnsQuery, comes_at_once_when_the_addresses_of_a_link_change) {
    auto const address_1 = address("/ip4/10.77.0.1/tcp/1");
    auto const address_2 = address("/ip4/10.77.0.7/tcp/1");
    Node node(1, {address_1});
    node.discovery.receive(link, recorded_answer("rust-and-rust"), lan_source, start);
    node.discovery.link_up(link, {address_1}, start + 10s); // The same.
    EXPECT_EQ(node.discovery.deadline(), start + 1s);
    node.discovery.link_up(link, {address_2}, start + 10s);
    EXPECT_EQ(node.discovery.deadline(), start + 10s);
    node.discovery.on_time(start + 10s);
    auto const question = packets_of(node.discovery).at(0).bytes;
    node.discovery.receive(link, question, lan_source, start + 10s); // Our own, heard by ourselves.
    auto const answer = decode(packets_of(node.discovery).at(0).bytes).value();
    EXPECT_TRUE(answer.additional.at(0).texts.at(0).starts_with("dnsaddr=/ip4/10.77.0.7/tcp/1/"));
}

TEST(MdnsQuery, begins_anew_when_all_peers_have_gone) {
    Node node(1);
    node.discovery.receive(link, recorded_answer("rust-and-rust"), lan_source, start);
    EXPECT_EQ(events_of(node.discovery).size(), 1U);
    node.discovery.search(start + 100s);
    std::vector<Duration> times;
    for (int i = 0; i < 3; ++i) {
        times.push_back(node.discovery.deadline() - start);
        node.discovery.on_time(node.discovery.deadline());
    }
    EXPECT_EQ(times, (std::vector<Duration>{100s, 101s, 103s}));
    node.discovery.receive(link, recorded_answer("rust-and-rust"), lan_source, start + 104s);
    EXPECT_EQ(events_of(node.discovery).size(), 1U); // Told again, though it was known.
}

TEST(MdnsAnswer, repeats_the_id_and_tells_each_address_where_rust_looks) {
    auto const first = address("/ip4/10.0.0.1/tcp/4001");
    auto const second = address("/ip4/10.0.0.9/tcp/4002");
    Node node(1, {first, second});
    node.discovery.receive(link, query(0xbeef), lan_source, start);
    auto const packets = packets_of(node.discovery);
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].link, link);
    auto const packet = decode(packets[0].bytes).value();
    EXPECT_EQ(packet.id, 0xbeef);
    EXPECT_TRUE(packet.is_response);
    EXPECT_TRUE(packet.questions.empty());
    ASSERT_EQ(packet.answers.size(), 1U);
    auto const& ptr = packet.answers[0];
    EXPECT_EQ(ptr.name, Name::of(service));
    EXPECT_EQ(ptr.ttl_s, 2500U);
    EXPECT_TRUE(ptr.target.text().ends_with("._p2p._udp.local"));
    ASSERT_EQ(packet.additional.size(), 2U);
    for (auto const& txt : packet.additional) {
        EXPECT_EQ(txt.type, type_txt);
        EXPECT_EQ(txt.name, ptr.target);
        EXPECT_EQ(txt.record_class, 0x8001);
        EXPECT_EQ(txt.ttl_s, 2500U);
    }
    auto const suffix = "/p2p/" + peer(1).text();
    EXPECT_EQ(
        packet.additional[0].texts,
        std::vector<std::string>{"dnsaddr=/ip4/10.0.0.1/tcp/4001" + suffix}
    );
    EXPECT_EQ(
        packet.additional[1].texts,
        std::vector<std::string>{"dnsaddr=/ip4/10.0.0.9/tcp/4002" + suffix}
    );
}

TEST(MdnsAnswer, goes_to_our_own_query_too_but_does_not_find_ourselves) {
    Node node(1, {address("/ip4/10.0.0.1/tcp/4001")});
    auto const own_query = [&] {
        node.discovery.on_time(start + 1s);
        return packets_of(node.discovery).at(0).bytes;
    }();
    node.discovery.receive(link, own_query, lan_source, start + 1s);
    auto const answers = packets_of(node.discovery);
    ASSERT_EQ(answers.size(), 1U);
    node.discovery.receive(link, answers[0].bytes, lan_source, start + 1s);
    EXPECT_TRUE(events_of(node.discovery).empty());
    EXPECT_TRUE(packets_of(node.discovery).empty());
}

TEST(MdnsAnswer, is_not_given_without_addresses_or_to_other_questions) {
    Node silent(1);
    silent.discovery.receive(link, query(1), lan_source, start);
    EXPECT_TRUE(packets_of(silent.discovery).empty());
    Node node(1, {address("/ip4/10.0.0.1/tcp/4001")});
    Packet other;
    other.questions.push_back({.name = Name::of("_http._tcp.local")});
    other.questions.push_back({.name = Name::of(service), .type = type_txt});
    node.discovery.receive(link, encode(other), lan_source, start);
    EXPECT_TRUE(packets_of(node.discovery).empty());
}

TEST(MdnsAnswer, is_given_20_times_a_second_at_most) {
    Node node(1, {address("/ip4/10.0.0.1/tcp/4001")});
    for (int i = 0; i < 100; ++i) {
        node.discovery.receive(link, query(1), lan_source, start);
    }
    EXPECT_EQ(packets_of(node.discovery).size(), 20U);
    node.discovery.receive(link, query(1), lan_source, start + 1s);
    EXPECT_EQ(packets_of(node.discovery).size(), 1U);
}

TEST(MdnsAnswer, names_at_most_8_addresses) {
    std::vector<Multiaddr> many;
    for (int i = 0; i < 20; ++i) {
        many.push_back(address("/ip4/10.0.0." + std::to_string(i) + "/tcp/4001"));
    }
    Node node(1, many);
    node.discovery.receive(link, query(1), lan_source, start);
    auto const packets = packets_of(node.discovery);
    EXPECT_EQ(decode(packets.at(0).bytes).value().additional.size(), 8U);
    EXPECT_LT(packets[0].bytes.size(), 1472U);
}

TEST(MdnsFound, answers_of_rust_js_and_go_are_understood) {
    struct Row {
        char const* scene;
        char const* text;
    };

    for (auto const& row :
         {Row{"rust-and-rust", "/ip4/10.77.0.2/tcp/44599"},
          Row{"rust-and-js", "/ip4/10.77.0.2/tcp/33429"},
          Row{"rust-and-go", "/ip4/10.77.0.2/tcp/40927"}}) {
        Node node(1);
        node.discovery.receive(link, recorded_answer(row.scene), lan_source, start);
        // Their loopback address becomes the same one, with the packet's source in its place.
        EXPECT_EQ(
            events_of(node.discovery), (std::vector<Discovered>{{peer(2), address(row.text)}})
        ) << row.scene;
    }
}

TEST(MdnsFound, two_of_our_own_kind_find_each_other) {
    Node a(1, {address("/ip4/10.77.0.1/tcp/1")});
    Node b(2, {address("/ip4/10.77.0.2/tcp/2")});
    a.discovery.receive(link, query(5), lan_source, start);
    auto const answer = packets_of(a.discovery).at(0).bytes;
    b.discovery.receive(link, answer, {.ip = "10.77.0.1"}, start);
    EXPECT_EQ(
        events_of(b.discovery),
        (std::vector<Discovered>{{peer(1), address("/ip4/10.77.0.1/tcp/1")}})
    );
}

TEST(MdnsFound, the_source_comes_first_and_the_announced_address_stays) {
    auto const found = learnt("/ip4/192.168.1.7/tcp/1/p2p/" + peer(2).text(), lan_source);
    EXPECT_EQ(
        found,
        (std::vector<Discovered>{
            {peer(2), address("/ip4/10.77.0.2/tcp/1")}, {peer(2), address("/ip4/192.168.1.7/tcp/1")}
        })
    );
}

TEST(MdnsFound, B076_loopback_of_another_machine_becomes_where_it_came_from) {
    for (auto const* ip : {"127.0.0.1", "127.1.2.3"}) {
        auto const found =
            learnt("/ip4/" + std::string(ip) + "/tcp/7/p2p/" + peer(2).text(), lan_source);
        EXPECT_EQ(found, (std::vector<Discovered>{{peer(2), address("/ip4/10.77.0.2/tcp/7")}}))
            << ip;
    }
    for (auto const* ip : {"::1", "::ffff:127.0.0.1"}) {
        auto const text = "/ip6/" + std::string(ip) + "/tcp/7/p2p/" + peer(2).text();
        EXPECT_TRUE(learnt(text, lan_source).empty()) << ip;
        EXPECT_TRUE(learnt(text, {.ip = "fe80::7", .zone = "eth0"}).empty()) << ip;
    }
}

TEST(MdnsFound, on_this_machine_the_announced_address_is_the_true_one) {
    Source const here{.ip = "10.77.0.1", .is_this_machine = true};
    EXPECT_EQ(
        learnt("/ip4/127.0.0.1/tcp/1/p2p/" + peer(2).text(), here),
        (std::vector<Discovered>{{peer(2), address("/ip4/127.0.0.1/tcp/1"), true}})
    );
}

TEST(MdnsFound, what_cannot_be_dialled_is_left_out) {
    auto const suffix = "/p2p/" + peer(2).text();
    Source const ip6_source{.ip = "fe80::7"};
    EXPECT_TRUE(learnt("/ip4/127.0.0.1/tcp/1" + suffix, ip6_source).empty());
    EXPECT_TRUE(learnt("/ip4/0.0.0.0/tcp/1" + suffix, ip6_source).empty());
    EXPECT_TRUE(learnt("/ip4/10.0.0.1/tcp/0" + suffix, lan_source).empty());
    EXPECT_TRUE(learnt("/ip6/::1/tcp/1" + suffix, lan_source).empty());
    EXPECT_TRUE(learnt("/ip6/fe80::1/tcp/1" + suffix, ip6_source).empty()); // Which interface?
    EXPECT_TRUE(learnt("/ip4/10.0.0.1/udp/1/quic-v1" + suffix, lan_source).empty());
    EXPECT_TRUE(learnt("/ip4/10.0.0.1/tcp/1", lan_source).empty()); // Whose?
    EXPECT_TRUE(learnt("nonsense", lan_source).empty());
}

TEST(MdnsFound, a_link_local_address_gets_our_name_of_the_interface) {
    Source const source{.ip = "fe80::7", .zone = "eth0"};
    auto const found = learnt("/ip6/fe80::7/tcp/1/p2p/" + peer(2).text(), source);
    ASSERT_EQ(found.size(), 1U);
    auto const target = found[0].address.tcp_target().value();
    EXPECT_EQ(target.host, "fe80::7");
    EXPECT_EQ(target.zone, "eth0");
}

TEST(MdnsFound, a_text_under_another_name_does_not_count) {
    Packet packet{.is_response = true};
    packet.answers.push_back(
        {.name = Name::of("_other._udp.local"), .type = type_ptr, .ttl_s = 9, .target = Name({"x"})}
    );
    packet.additional.push_back({
        .name = Name({"x"}),
        .type = type_txt,
        .ttl_s = 9,
        .texts = {"dnsaddr=/ip4/10.0.0.1/tcp/1/p2p/" + peer(2).text()},
    });
    Node node(1);
    node.discovery.receive(link, encode(packet), lan_source, start);
    EXPECT_TRUE(events_of(node.discovery).empty());
}

TEST(MdnsFound, once_until_it_expires_or_says_good_bye) {
    auto const bytes = answer_with("/ip4/10.77.0.2/tcp/1/p2p/" + peer(2).text(), 120);
    Node node(1);
    auto const found_at = [&](TimePoint now) {
        node.discovery.on_time(now);
        node.discovery.receive(link, bytes, lan_source, now);
        return events_of(node.discovery).size();
    };
    EXPECT_EQ(found_at(start), 1U);
    EXPECT_EQ(found_at(start + 100s), 0U);
    EXPECT_EQ(found_at(start + 219s), 0U); // The second announcement has kept it alive.
    EXPECT_EQ(found_at(start + 339s), 1U);
    auto const good_bye = answer_with("/ip4/10.77.0.2/tcp/1/p2p/" + peer(2).text(), 0);
    node.discovery.receive(link, good_bye, lan_source, start + 341s);
    EXPECT_EQ(found_at(start + 342s), 1U);
}

TEST(MdnsFound, a_flood_of_addresses_is_cut_off) {
    Node node(1, {}, {.addresses_max = 3});
    for (int i = 1; i < 10; ++i) {
        auto const text = "/ip4/10.77.0.2/tcp/" + std::to_string(i) + "/p2p/" + peer(2).text();
        node.discovery.receive(link, answer_with(text), lan_source, start);
    }
    EXPECT_EQ(events_of(node.discovery).size(), 3U);
}

TEST(MdnsFound, garbage_is_counted_and_changes_nothing) {
    Node node(1);
    node.discovery.receive(link, as_bytes("garbage"), lan_source, start);
    EXPECT_EQ(node.discovery.malformed_count(), 1U);
    node.discovery.receive(LinkId(77), query(1), lan_source, start); // A link that has gone.
    EXPECT_TRUE(packets_of(node.discovery).empty());
}

std::vector<Multiaddr> twins_of(Discovery& discovery) {
    std::vector<Multiaddr> twins;
    while (auto const twin = discovery.next_twin()) {
        EXPECT_EQ(twin->link, link);
        twins.push_back(twin->address);
    }
    return twins;
}

TEST(MdnsTwin, B078_our_own_id_announced_by_another_machine_or_process_is_told) {
    auto const own = "/p2p/" + peer(1).text();
    Node node(1, {address("/ip4/10.77.0.1/tcp/4001")});
    node.discovery.receive(link, answer_with("/ip4/10.77.0.2/tcp/4001" + own), lan_source, start);
    EXPECT_EQ(twins_of(node.discovery), std::vector{address("/ip4/10.77.0.2/tcp/4001")});
    Source const here{.ip = "10.77.0.1", .zone = "eth0", .is_this_machine = true};
    node.discovery.receive(link, answer_with("/ip4/10.77.0.1/tcp/4009" + own), here, start);
    EXPECT_EQ(twins_of(node.discovery), std::vector{address("/ip4/10.77.0.1/tcp/4009")});
    EXPECT_TRUE(events_of(node.discovery).empty());
}

TEST(MdnsTwin, our_own_announcement_is_none_also_by_way_of_a_reflector_or_of_an_old_address) {
    auto const own = "/p2p/" + peer(1).text();
    Node node(1, {address("/ip4/10.77.0.1/tcp/4001")});
    node.discovery.receive(link, answer_with("/ip4/10.77.0.1/tcp/4001" + own), lan_source, start);
    Source const here{.ip = "10.77.0.1", .zone = "eth0", .is_this_machine = true};
    node.discovery.receive(link, answer_with("/ip4/10.77.0.9/tcp/4001" + own), here, start);
    node.discovery.receive(link, answer_with("/ip4/10.77.0.2/tcp/1" + own, 0), lan_source, start);
    EXPECT_TRUE(twins_of(node.discovery).empty());
}

TEST(MdnsReachable, addresses_are_those_of_the_interface) {
    std::vector<Multiaddr> const listen{
        address("/ip4/0.0.0.0/tcp/4001"),
        address("/ip4/10.0.0.1/tcp/4002"),
        address("/ip4/127.0.0.1/tcp/4003"),
        address("/ip6/::/tcp/4004"),
        address("/ip4/10.0.0.1/tcp/4001"),
    };
    EXPECT_EQ(
        reachable_addresses(listen, "10.0.0.1"),
        (std::vector<Multiaddr>{
            address("/ip4/10.0.0.1/tcp/4001"), address("/ip4/10.0.0.1/tcp/4002")
        })
    );
    EXPECT_EQ(
        reachable_addresses(listen, "fe80::1"),
        std::vector<Multiaddr>{address("/ip6/fe80::1/tcp/4004")}
    );
    EXPECT_EQ(
        reachable_addresses(listen, "127.0.0.1"),
        (std::vector<Multiaddr>{
            address("/ip4/127.0.0.1/tcp/4001"), address("/ip4/127.0.0.1/tcp/4003")
        })
    );
}

} // namespace
} // namespace exo::net::mdns
