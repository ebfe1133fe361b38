// SPDX-License-Identifier: Apache-2.0
//
// From facts to findings: a table of what can be wrong, and that nothing is said when all is well.
#include "net/diagnosis/diagnosis.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace exo::net {
namespace {

TimePoint const start{};

PeerId peer(char const* text) {
    return PeerId::parse(text).value();
}

PeerId const self = peer("12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5");
PeerId const other = peer("12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq");
PeerId const third = peer("QmcgpsyWgH8Y8ajJz1Cu72KnS5uo2Aa2LpzU7kinSupNKC");

Multiaddr address(char const* ip, std::uint16_t port = 4001) {
    return Multiaddr::tcp(ip, port).value();
}

InterfaceAddress on_24(char const* ip) {
    return {.text = ip, .ip = Ip::parse(ip).value(), .prefix_bits = 24};
}

LinkFacts ethernet() {
    LinkFacts link;
    link.interface = "eth0";
    link.kind = InterfaceKind::ethernet;
    link.addresses = {on_24("10.77.0.1")};
    link.since = start;
    link.packets_sent = 5;
    link.packets_looped = 5;
    return link;
}

LinkFacts only_loopback_link() {
    auto link = ethernet();
    link.interface = "lo";
    link.kind = InterfaceKind::loopback;
    link.addresses = {on_24("127.0.0.1")};
    return link;
}

// A node that is alone on one Ethernet, a minute after its start.
Situation alone() {
    Situation situation;
    situation.network.self = self;
    situation.network.listen = {address("0.0.0.0"), address("::")};
    situation.network.links = {ethernet()};
    situation.neighbours = {{.peer = self, .name = "attic", .ips = {"10.77.0.1"}}};
    situation.network_name = "v0.0.1";
    situation.version = "0.2.0";
    situation.key_file = "/home/x/node_id.keypair";
    situation.started = start;
    situation.now = start + 60s;
    return situation;
}

ConnectionFacts connection(PeerId const& to, char const* ip, TimePoint since = start) {
    return {.id = 1, .peer = to, .remote_ip = ip, .remote_tcp_port = 4001, .since = since};
}

// Two nodes that have found each other by multicast.
Situation pair() {
    auto situation = alone();
    situation.network.links[0].heard["10.77.0.2"] = start + 50s;
    situation.network.connections = {connection(other, "10.77.0.2")};
    situation.network.dials = {
        {.address = address("10.77.0.2").with_peer(other), .peer = other, .connected = true}
    };
    situation.neighbours[0].links = {{.peer = other, .ip = "10.77.0.2"}};
    situation.neighbours.push_back(
        {.peer = other,
         .name = "cellar",
         .ips = {"10.77.0.2"},
         .links = {{.peer = self, .ip = "10.77.0.1"}}}
    );
    return situation;
}

DialFacts failing(Multiaddr const& to, std::string error, bool given = false) {
    DialFacts dial{.address = to, .peer = to.peer(), .given = given, .failures = 3};
    dial.error = std::move(error);
    return dial;
}

std::string system_error(std::errc code) {
    return "cannot connect to 10.77.0.9:4001: " + std::make_error_code(code).message();
}

AnnouncedFacts announced(bool same_network, std::string version) {
    return {
        .name = "cellar",
        .peer = other.text(),
        .version = std::move(version),
        .same_network = same_network,
        .interface = "eth0",
        .since = start
    };
}

std::vector<std::string> codes(std::vector<Finding> const& findings) {
    std::vector<std::string> found;
    for (auto const& finding : findings) {
        found.push_back(finding.code);
    }
    return found;
}

using Codes = std::vector<std::string>;

Finding const* find(std::vector<Finding> const& findings, std::string_view code) {
    auto const found = std::ranges::find(findings, code, &Finding::code);
    return found == findings.end() ? nullptr : &*found;
}

Finding finding(Situation const& situation, std::string_view code) {
    auto const findings = judge(situation);
    auto const* const found = find(findings, code);
    EXPECT_NE(found, nullptr) << code << " was not found";
    return found == nullptr ? Finding() : *found;
}

bool names(Finding const& finding, std::string_view text) {
    return finding.message.find(text) != std::string::npos;
}

TEST(Diagnosis, of_two_nodes_that_see_each_other_is_that_all_is_well) {
    auto const findings = judge(pair());
    EXPECT_EQ(codes(findings), (Codes{"connected", "multicast_heard"}));
    EXPECT_EQ(findings[0].severity, Severity::ok);
    EXPECT_EQ(findings[0].message, "1 peer connected: cellar (...2NASuq) at 10.77.0.2");
    EXPECT_EQ(findings[1].message, "multicast was heard on eth0 from 10.77.0.2, last 10 s ago");
}

TEST(Diagnosis, B145_a_node_that_has_just_started_raises_no_alarm_whatever_it_has_not_seen_yet) {
    auto situation = alone();
    situation.now = start + 3s;
    situation.network.links[0].packets_looped = 0;
    situation.network.dials = {failing(address("10.77.0.9"), "no answer from 10.77.0.9:4001", true)
    };
    EXPECT_EQ(codes(judge(situation)), Codes{"just_started"});
    situation.network.links.clear();
    EXPECT_EQ(codes(judge(situation)), Codes{"just_started"});
}

TEST(Diagnosis, B145_a_peer_that_has_just_come_is_not_expected_to_be_heard_yet) {
    auto situation = pair();
    situation.network.links[0].heard.clear();
    situation.network.connections[0].since = situation.now - 3s;
    EXPECT_EQ(find(judge(situation), "multicast_blocked"), nullptr);
}

TEST(Diagnosis, B073_nobody_was_heard_names_interface_group_port_and_what_to_do) {
    auto situation = alone();
    auto link6 = ethernet();
    link6.is_ip4 = false;
    auto bridge = ethernet();
    bridge.interface = "docker0";
    bridge.kind = InterfaceKind::container;
    situation.network.links.insert(situation.network.links.end(), {link6, bridge});
    EXPECT_EQ(codes(judge(situation)), (Codes{"isolated", "multicast_silent"}));
    auto const silent = finding(situation, "multicast_silent");
    EXPECT_EQ(silent.severity, Severity::warning);
    EXPECT_TRUE(names(silent, "on eth0 (224.0.0.251 and ff02::fb), UDP port 5353"))
        << silent.message;
    EXPECT_NE(silent.remedy.find("--bootstrap-peers"), std::string::npos);
    EXPECT_NE(silent.remedy.find("5353"), std::string::npos);
}

TEST(Diagnosis, alone_where_others_are_heard_is_isolated_but_multicast_is_not_blamed) {
    auto situation = alone();
    situation.network.links[0].heard["10.77.0.50"] = start + 2s;
    EXPECT_EQ(codes(judge(situation)), (Codes{"isolated", "multicast_heard"}));
}

TEST(Diagnosis, a_peer_that_is_connected_but_never_heard_shows_that_multicast_is_blocked) {
    auto situation = pair();
    situation.network.links[0].heard.clear();
    auto const blocked = finding(situation, "multicast_blocked");
    EXPECT_EQ(blocked.severity, Severity::warning);
    EXPECT_TRUE(names(blocked, "eth0: 10.77.0.2 is connected")) << blocked.message;
    // Behind a router, on this machine, or never to be heard on that family: nothing is known.
    for (auto const* ip : {"10.78.0.2", "10.77.0.1", "127.0.0.1", "fd00::2"}) {
        situation.network.connections[0].remote_ip = ip;
        EXPECT_EQ(find(judge(situation), "multicast_blocked"), nullptr) << ip;
    }
    situation.network.connections[0].remote_ip = "10.77.0.2";
    EXPECT_EQ(codes(judge_links(situation)), Codes{"multicast_blocked"});
    situation.neighbours.pop_back(); // No exo: it need not know mDNS.
    EXPECT_EQ(find(judge(situation), "multicast_blocked"), nullptr);
}

TEST(Diagnosis, own_packets_that_do_not_come_back_show_a_firewall_on_this_machine) {
    auto situation = alone();
    situation.network.links[0].packets_looped = 0;
    auto const found = finding(situation, "multicast_not_returned");
    EXPECT_TRUE(names(found, "eth0")) << found.message;
    EXPECT_NE(found.remedy.find("firewall"), std::string::npos);
    situation.is_macos = true;
    EXPECT_NE(
        finding(situation, "multicast_not_returned").remedy.find("Local Network"), std::string::npos
    );
}

TEST(Diagnosis, what_cannot_be_sent_is_an_error_unless_another_interface_can) {
    auto situation = alone();
    situation.network.links[0].error = "send: Operation not permitted";
    auto const found = finding(situation, "multicast_cannot_send");
    EXPECT_EQ(found.severity, Severity::error);
    EXPECT_TRUE(names(found, "Operation not permitted"));
    EXPECT_EQ(find(judge(situation), "multicast_silent"), nullptr); // The cause is said already.
    auto wifi = ethernet();
    wifi.interface = "wlan0";
    situation.network.links.push_back(wifi);
    EXPECT_EQ(finding(situation, "multicast_cannot_send").severity, Severity::warning);
    situation.network.links[1].interface = "eth0";
    situation.network.links[1].is_ip4 = false;
    EXPECT_EQ(finding(situation, "multicast_cannot_send").severity, Severity::note);
}

TEST(Diagnosis, a_port_held_by_another_program_is_said_so) {
    auto situation = alone();
    situation.network.links[0].error = "bind to port 5353: Address already in use";
    EXPECT_NE(
        finding(situation, "multicast_cannot_send").remedy.find("another program"),
        std::string::npos
    );
}

TEST(Diagnosis, B146_no_route_to_a_multicast_group_on_macos_is_the_local_network_permission) {
    auto situation = alone();
    situation.network.links[0].error =
        "send: " + std::make_error_code(std::errc::host_unreachable).message();
    EXPECT_EQ(find(judge(situation), "local_network_permission"), nullptr);
    situation.is_macos = true;
    EXPECT_NE(
        finding(situation, "local_network_permission").remedy.find("Local Network"),
        std::string::npos
    );
}

TEST(Diagnosis, B146_no_route_to_a_machine_of_the_own_subnet_on_macos_is_that_permission_too) {
    auto situation = pair();
    situation.is_macos = true;
    situation.network.dials = {
        failing(address("10.77.0.9"), system_error(std::errc::host_unreachable), true)
    };
    EXPECT_NE(finding(situation, "local_network_permission").remedy, "");
    situation.network.dials[0].address = address("192.168.50.9");
    EXPECT_EQ(find(judge(situation), "local_network_permission"), nullptr);
    EXPECT_NE(find(judge(situation), "no_route"), nullptr);
}

TEST(Diagnosis, interfaces_that_exceed_the_limit_are_said) {
    auto situation = pair();
    situation.network.links_left_out = 8;
    EXPECT_EQ(finding(situation, "interfaces_left_out").severity, Severity::note);
    situation.network.connections.clear();
    EXPECT_EQ(finding(situation, "interfaces_left_out").severity, Severity::warning);
}

TEST(Diagnosis, a_machine_without_a_network_is_told_so) {
    auto situation = alone();
    situation.network.links = {only_loopback_link()};
    EXPECT_EQ(finding(situation, "no_interface").severity, Severity::error);
    situation.network.links[0].heard["10.77.0.1"] = start + 50s; // Of the cable that is out.
    EXPECT_EQ(find(judge(situation), "multicast_heard"), nullptr);
    situation.network.links[0].heard.clear();
    EXPECT_EQ(find(judge(situation), "multicast_silent"), nullptr);
    situation.network.links.clear();
    EXPECT_EQ(finding(situation, "no_interface").severity, Severity::error);
}

struct DialCase {
    std::string error;
    char const* code;
};

class Dials : public testing::TestWithParam<DialCase> {};

TEST_P(Dials, say_what_kind_of_failure_it_is) {
    auto const& [error, code] = GetParam();
    auto situation = alone();
    situation.network.dials = {failing(address("10.77.0.9"), error, true)};
    auto const found = finding(situation, code);
    EXPECT_EQ(found.severity, Severity::error);
    EXPECT_TRUE(names(found, "bootstrap peer 10.77.0.9:4001 was not reached")) << found.message;
    EXPECT_TRUE(names(found, error)) << found.message;
    EXPECT_NE(found.remedy, "");
    // Others are here: it is not why there is nobody.
    auto in_company = pair();
    in_company.network.dials = situation.network.dials;
    EXPECT_EQ(finding(in_company, code).severity, Severity::warning);
    // It was reached by another address.
    in_company.network.dials[0].connected = true;
    EXPECT_EQ(find(judge(in_company), code), nullptr);
}

INSTANTIATE_TEST_SUITE_P(
    EveryFailure,
    Dials,
    testing::Values(
        DialCase{"cannot resolve attic: Host not found (authoritative)", "unknown_name"},
        DialCase{system_error(std::errc::host_unreachable), "no_route"},
        DialCase{system_error(std::errc::network_unreachable), "no_route"},
        DialCase{system_error(std::errc::permission_denied), "no_route"},
        DialCase{"there is no interface 'eth7'", "no_route"},
        DialCase{system_error(std::errc::timed_out), "no_answer"},
        DialCase{"no answer from 10.77.0.9:4001", "no_answer"},
        DialCase{system_error(std::errc::connection_refused), "nothing_listens"},
        DialCase{"noise: 12D3a was called, 12D3b answered", "other_peer"},
        DialCase{"connection lost in the handshake: End of file", "other_network"},
        DialCase{"no handshake within 10 s (another namespace?)", "other_network"},
        DialCase{"multistream: unexpected: 'xy'", "other_network"}
    )
);

TEST(Diagnosis, addresses_of_one_peer_are_one_finding_by_that_which_got_farthest) {
    auto situation = alone();
    situation.network.dials = {
        failing(address("10.77.0.9").with_peer(other), "no answer from 10.77.0.9:4001"),
        failing(
            address("172.17.0.1").with_peer(other), system_error(std::errc::connection_refused)
        ),
    };
    auto const findings = judge(situation);
    EXPECT_EQ(find(findings, "no_answer"), nullptr);
    auto const found = finding(situation, "nothing_listens");
    EXPECT_EQ(found.severity, Severity::warning);
    EXPECT_TRUE(names(found, "10.77.0.9:4001 and 172.17.0.1:4001")) << found.message;
}

TEST(Diagnosis, a_learnt_address_that_failed_once_or_belongs_to_a_peer_that_is_here_is_no_finding) {
    auto situation = pair();
    auto dial = failing(address("172.17.0.1").with_peer(other), "no answer from 172.17.0.1:4001");
    dial.connected = true;
    situation.network.dials.push_back(dial);
    dial = failing(address("10.77.0.3").with_peer(third), "no answer from 10.77.0.3:4001");
    dial.failures = 1;
    situation.network.dials.push_back(dial);
    EXPECT_EQ(codes(judge(situation)), (Codes{"connected", "multicast_heard"}));
}

TEST(Diagnosis, a_peer_that_was_here_and_has_stopped_is_no_more_than_a_note) {
    auto situation = pair();
    situation.network.dials.push_back(
        failing(address("10.77.0.3").with_peer(third), "no answer from 10.77.0.3:4001")
    );
    EXPECT_EQ(finding(situation, "no_answer").severity, Severity::warning);
    situation.network.dials.back().reached = true;
    EXPECT_EQ(finding(situation, "no_answer").severity, Severity::note);
}

TEST(Diagnosis, findings_of_one_kind_are_few_and_the_rest_is_counted) {
    auto situation = alone();
    for (int i = 0; i < 30; ++i) {
        auto const ip = "10.77.1." + std::to_string(i);
        situation.network.dials.push_back(failing(address(ip.c_str()), "no answer", true));
    }
    auto const findings = judge(situation);
    EXPECT_EQ(std::ranges::count(findings, "no_answer", &Finding::code), 9);
    auto const rest = std::ranges::find_if(findings, [](Finding const& one) {
        return one.message == "22 more of this kind";
    });
    EXPECT_NE(rest, findings.end());
}

TEST(Diagnosis, B151_a_node_of_another_namespace_or_version_is_seen_and_named) {
    auto situation = alone();
    situation.network.announced = {announced(false, "0.2.0")};
    auto found = finding(situation, "other_network");
    EXPECT_EQ(found.severity, Severity::warning);
    EXPECT_TRUE(names(found, "cellar")) << found.message;
    EXPECT_NE(found.remedy.find("'v0.0.1'"), std::string::npos);
    EXPECT_EQ(find(judge(situation), "other_version"), nullptr);

    situation.network.announced = {announced(true, "0.1.0")};
    found = finding(situation, "other_version");
    EXPECT_TRUE(names(found, "exo 0.1.0, this node 0.2.0")) << found.message;
    EXPECT_EQ(find(judge(situation), "other_network"), nullptr);
}

TEST(Diagnosis, another_cluster_in_the_same_room_is_a_note_and_one_that_is_gone_nothing) {
    auto situation = pair();
    situation.network.announced = {announced(false, "0.2.0")};
    EXPECT_EQ(finding(situation, "other_network").severity, Severity::note);
    situation.network.announced[0].gone = situation.now - 1s;
    EXPECT_EQ(find(judge(situation), "other_network"), nullptr);
    situation.network.announced = {announced(true, "0.2.0")};
    EXPECT_EQ(codes(judge(situation)), (Codes{"connected", "multicast_heard"}));
    // Our own announcement, of another version by mistake of whoever made the test.
    situation.network.announced = {announced(false, "0.1.0")};
    situation.network.announced[0].peer = self.text();
    EXPECT_EQ(codes(judge(situation)), (Codes{"connected", "multicast_heard"}));
}

TEST(Diagnosis, strangers_at_the_door_are_named_with_the_reason_while_it_is_recent) {
    auto situation = alone();
    situation.network.refusals = {
        {.ip = "10.77.0.3", .reason = "multistream: garbage", .count = 12, .last = start + 57s}
    };
    auto const found = finding(situation, "stranger_refused");
    EXPECT_EQ(found.message, "10.77.0.3 was refused 12 times, last 3 s ago: multistream: garbage");
    EXPECT_EQ(found.severity, Severity::warning);
    situation.now = start + 1h;
    EXPECT_EQ(find(judge(situation), "stranger_refused"), nullptr);
}

TEST(Diagnosis, who_was_refused_before_it_was_let_in_is_no_stranger) {
    auto situation = pair();
    situation.network.connections[0].since = start + 40s;
    situation.network.refusals = {
        {.ip = "10.77.0.2", .reason = "no handshake within 10 s", .count = 2, .last = start + 50s}
    };
    EXPECT_EQ(codes(judge(situation)), (Codes{"connected", "multicast_heard"}));
    // By another address of it; another machine; somebody else on the same one, later.
    situation.network.connections[0] = connection(other, "fe80::2", start + 40s);
    EXPECT_EQ(find(judge(situation), "stranger_refused"), nullptr);
    situation.network.refusals[0].ip = "fe80::2%eth0";
    EXPECT_EQ(find(judge(situation), "stranger_refused"), nullptr);
    situation.network.refusals[0].ip = "10.77.0.3";
    EXPECT_NE(find(judge(situation), "stranger_refused"), nullptr);
    situation.network.refusals[0] = {.ip = "10.77.0.2", .reason = "", .last = start + 52s};
    EXPECT_NE(find(judge(situation), "stranger_refused"), nullptr);
}

TEST(Diagnosis, a_node_without_discovery_says_so_and_blames_no_interface) {
    auto situation = pair();
    situation.network.links.clear();
    situation.with_discovery = false;
    EXPECT_EQ(codes(judge(situation)), (Codes{"discovery_off", "connected"}));
    EXPECT_EQ(finding(situation, "discovery_off").severity, Severity::note);
    situation.network.connections.clear();
    EXPECT_EQ(finding(situation, "discovery_off").severity, Severity::warning);
    // The doctor's own look, beside such a node.
    auto look = pair();
    look.network.links[0].heard.clear();
    EXPECT_NE(find(judge_links(look), "multicast_blocked"), nullptr);
    look.with_discovery = false;
    EXPECT_EQ(find(judge_links(look), "multicast_blocked"), nullptr);
}

TEST(Diagnosis, B079_a_one_way_link_is_said_once_it_has_lasted) {
    auto situation = pair();
    situation.missing_links = {
        {.from = self, .to = other, .one_way = true, .since = situation.now - 5s}
    };
    EXPECT_EQ(find(judge(situation), "one_way_link"), nullptr);
    situation.missing_links[0].since = situation.now - 30s;
    auto const found = finding(situation, "one_way_link");
    EXPECT_EQ(
        found.message,
        "attic (...SUKPH5) sees cellar (...2NASuq), but not the other way round, for 30 s"
    );
    situation.missing_links[0].one_way = false;
    EXPECT_TRUE(names(finding(situation, "no_link"), "have no connection with each other"));
}

TEST(Diagnosis, B084_a_peer_whose_address_its_owner_does_not_know_is_behind_nat) {
    auto situation = pair();
    situation.neighbours[1].ips = {"172.29.4.7"};
    auto const found = finding(situation, "behind_nat");
    EXPECT_EQ(found.severity, Severity::note);
    EXPECT_TRUE(names(found, "cellar (...2NASuq) is behind NAT")) << found.message;
    EXPECT_TRUE(names(found, "others see 10.77.0.2, its own addresses are 172.29.4.7"));
}

TEST(Diagnosis, B084_a_node_learns_from_its_peers_that_it_is_behind_nat_itself) {
    auto situation = pair();
    situation.neighbours[1].links[0].ip = "192.168.1.7";
    EXPECT_TRUE(names(finding(situation, "behind_nat"), "this node is behind NAT"));
    // Two nodes of one machine, a cable without addresses: no NAT.
    for (auto const* ip : {"127.0.0.1", "::1", "10.77.0.2", "fe80::1", "169.254.3.4"}) {
        situation.neighbours[1].links[0].ip = ip;
        EXPECT_EQ(find(judge(situation), "behind_nat"), nullptr) << ip;
    }
}

TEST(Diagnosis, B084_a_container_is_behind_nat_and_its_host_is_not) {
    // `other` is the host of the container `third`, and meets it on a bridge of its own.
    auto situation = pair();
    situation.neighbours[0].links.push_back({.peer = third, .ip = "10.77.0.2"});
    situation.neighbours[1].links.push_back({.peer = third, .ip = "172.18.0.2"});
    situation.neighbours.push_back(
        {.peer = third,
         .name = "box",
         .ips = {"172.18.0.2"},
         .links = {{.peer = other, .ip = "172.18.0.1"}, {.peer = self, .ip = "10.77.0.1"}}}
    );
    auto findings = judge(situation);
    std::erase_if(findings, [](Finding const& one) { return one.code != "behind_nat"; });
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_TRUE(names(findings[0], "box (")) << findings[0].message;
    // Two that are both behind NAT see each other elsewhere than near.
    situation.neighbours[2].links[0].ip = "192.168.9.1";
    EXPECT_TRUE(names(finding(situation, "behind_nat"), "cellar ("));
}

TEST(Diagnosis, B078_a_copied_key_is_an_error_that_names_the_place_and_the_file) {
    auto situation = pair();
    situation.network.links[0].twins[address("10.77.0.5")] = start + 30s;
    auto const findings = judge(situation);
    EXPECT_EQ(findings[0].code, "same_key"); // The worst first.
    EXPECT_EQ(findings[0].severity, Severity::error);
    EXPECT_TRUE(names(findings[0], "10.77.0.5:4001")) << findings[0].message;
    EXPECT_NE(findings[0].remedy.find("/home/x/node_id.keypair"), std::string::npos);
    situation.now = start + 1h; // Long gone.
    EXPECT_EQ(find(judge(situation), "same_key"), nullptr);
    // Where multicast does not get, a dial meets it.
    situation.network.dials = {
        failing(address("10.78.0.5"), "another node at x has the identity of this one, y", true)
    };
    EXPECT_TRUE(names(finding(situation, "same_key"), "10.78.0.5:4001"));
    EXPECT_EQ(find(judge(situation), "other_network"), nullptr);
}

TEST(Diagnosis, a_node_that_listens_on_loopback_alone_is_told_so) {
    auto situation = alone();
    situation.network.listen = {address("127.0.0.1"), address("::1")};
    EXPECT_TRUE(names(finding(situation, "only_loopback"), "127.0.0.1:4001"));
    situation.network.listen.push_back(address("10.77.0.1"));
    EXPECT_EQ(find(judge(situation), "only_loopback"), nullptr);
}

TEST(Diagnosis, of_links_alone_says_nothing_of_peers) {
    auto situation = alone();
    situation.now = start + 2s;
    situation.patience = 2s;
    situation.network.dials = {failing(address("10.77.0.9"), "no answer", true)};
    EXPECT_EQ(codes(judge_links(situation)), Codes{"multicast_silent"});
    situation.network.links[0].heard["10.77.0.2"] = start + 1s;
    EXPECT_EQ(codes(judge_links(situation)), Codes{"multicast_heard"});
}

} // namespace
} // namespace exo::net
