// SPDX-License-Identifier: Apache-2.0
#include "main/doctor_report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace exo::cli {
namespace {

using net::Finding;
using net::Severity;

Finding finding(Severity severity, std::string code, std::string remedy = "") {
    return {severity, std::move(code), "what is wrong", std::move(remedy)};
}

net::LinkFacts link() {
    net::LinkFacts link;
    link.interface = "wlan0";
    link.kind = net::InterfaceKind::wifi;
    link.addresses = {
        {.text = "10.0.0.1", .ip = net::Ip::parse("10.0.0.1").value(), .prefix_bits = 24}
    };
    link.packets_sent = 3;
    link.packets_looped = 3;
    return link;
}

TEST(DoctorReport, has_a_line_for_each_interface_and_finding_and_one_for_its_remedy) {
    Report report{.version = "1.2.3", .node = "node 12D3 at 127.0.0.1:52415", .links = {link()}};
    report.findings = {finding(Severity::error, "a", "do this"), finding(Severity::ok, "b")};
    EXPECT_EQ(
        text_of(report),
        "exo doctor 1.2.3\n"
        "node 12D3 at 127.0.0.1:52415\n"
        "\n"
        "interface  kind  address   sent  back  answered by\n"
        "wlan0      wifi  10.0.0.1  3     3     -\n"
        "\n"
        "error     what is wrong\n"
        "          -> do this\n"
        "ok        what is wrong\n"
    );
}

TEST(DoctorReport, counts_the_machines_that_do_not_fit_and_shows_an_error_in_their_place) {
    Report report{.links = {link()}};
    for (auto const* ip : {"10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"}) {
        report.links[0].heard[ip] = TimePoint();
    }
    EXPECT_NE(text_of(report).find("10.0.0.2 10.0.0.3 10.0.0.4 and 1 more"), std::string::npos);
    report.links[0].error = "send: not permitted";
    EXPECT_NE(text_of(report).find("send: not permitted"), std::string::npos);
}

TEST(DoctorReport, nothing_that_a_stranger_wrote_steers_the_terminal) {
    Report report;
    report.findings = {{Severity::note, "x", "a\x1b[2Jb\nc", "d\x7f"}};
    auto const text = text_of(report);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_NE(text.find("a [2Jb c\n"), std::string::npos);
    report.with_colour = true; // Ours are.
    EXPECT_NE(text_of(report).find("\x1b[36mnote"), std::string::npos);
}

TEST(DoctorReport, a_document_of_another_shape_is_an_error) {
    for (auto const* text :
         {"{}",
          R"({"findings": 1})",
          R"({"findings": [1]})",
          R"({"findings": [{"severity": 1}]})",
          R"({"findings": [{"severity": "ok", "code": "x", "message": "y"}]})"}) {
        EXPECT_FALSE(findings_of(nlohmann::json::parse(text))) << text;
    }
    auto const good = findings_of(nlohmann::json::parse(
        R"({"findings": [{"severity": "error", "code": "x", "message": "y", "remedy": "z"}]})"
    ));
    ASSERT_TRUE(good);
    EXPECT_EQ(*good, (std::vector{Finding{Severity::error, "x", "y", "z"}}));
}

TEST(DoctorReport, what_the_node_says_is_not_said_twice_and_the_worst_comes_first) {
    auto const ok = finding(Severity::ok, "connected");
    auto const silent = finding(Severity::warning, "multicast_silent");
    auto const send = finding(Severity::error, "multicast_cannot_send");
    EXPECT_EQ(merged({ok}, {silent, send, send}), (std::vector{send, send, silent, ok}));
    EXPECT_EQ(merged({silent}, {silent}), std::vector{silent});
    EXPECT_TRUE(has_error({ok, send}));
    EXPECT_FALSE(has_error({ok, silent}));
}

TEST(DoctorReport, peers_of_the_node_are_taken_from_its_document_and_nonsense_is_left_out) {
    net::Situation look;
    add_peers(look, nlohmann::json::parse(R"({"peers": [
        {"peer_id": "12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5", "name": "attic",
         "connections": [{"remote_ip": "10.0.0.2"}]},
        {"peer_id": "12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq", "name": null,
         "connections": [{"remote_ip": "10.0.0.3"}]},
        {"peer_id": "none", "name": "x", "connections": [{"remote_ip": "10.0.0.4"}]},
        {"peer_id": null}, 7
    ]})"));
    ASSERT_EQ(look.network.connections.size(), 1u);
    EXPECT_EQ(look.network.connections[0].remote_ip, "10.0.0.2");
    EXPECT_EQ(look.neighbours.size(), 1u);
    add_peers(look, nlohmann::json::parse(R"({"peers": 1})"));
    EXPECT_EQ(look.network.connections.size(), 1u);
    EXPECT_TRUE(look.with_discovery);
}

TEST(DoctorReport, a_node_without_discovery_is_taken_from_its_document) {
    net::Situation look;
    add_peers(look, nlohmann::json::parse(R"({"peers": [], "findings": [
        {"severity": "note", "code": "discovery_off", "message": "x", "remedy": ""}
    ]})"));
    EXPECT_FALSE(look.with_discovery);
}

} // namespace
} // namespace exo::cli
