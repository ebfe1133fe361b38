// SPDX-License-Identifier: Apache-2.0
//
// The document of GET /network/diagnosis, byte for byte: scripts of users depend on its names.
#include "net/diagnosis/document.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace exo::net {
namespace {

using Json = nlohmann::json;

TimePoint const start{};

PeerId peer(char const* text) {
    return PeerId::parse(text).value();
}

PeerId const self = peer("12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5");
PeerId const other = peer("12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq");

Situation everything() {
    Situation situation;
    auto& network = situation.network;
    network.self = self;
    network.listen = {Multiaddr::tcp("0.0.0.0", 4001).value()};
    LinkFacts link{.interface = "eth0", .kind = InterfaceKind::ethernet, .since = start};
    link.addresses = {{.text = "10.0.0.1", .ip = Ip::parse("10.0.0.1").value(), .prefix_bits = 24}};
    link.packets_sent = 3;
    link.packets_looped = 2;
    link.heard["10.0.0.2"] = start + 58s;
    network.links = {link};
    auto const at = Multiaddr::tcp("10.0.0.2", 4001).value();
    network.dials = {
        {.address = at.with_peer(other), .peer = other, .connected = true},
        {.address = Multiaddr::tcp("10.0.0.9", 4001).value(),
         .given = true,
         .failures = 2,
         .error = "no answer from 10.0.0.9:4001"},
    };
    network.refusals = {{.ip = "10.0.0.3", .reason = "garbage", .count = 4, .last = start + 50s}};
    network.announced = {
        {.name = "cellar",
         .peer = other.text(),
         .version = "0.2.0",
         .same_network = true,
         .interface = "eth0",
         .addresses = {at.text()},
         .since = start}
    };
    network.connections = {
        {.id = 7,
         .peer = other,
         .remote_ip = "10.0.0.2",
         .remote_tcp_port = 4001,
         .outbound = true,
         .since = start + 10s + 50ms}
    };
    situation.neighbours = {{.peer = other, .name = "cellar"}};
    situation.started = start;
    situation.now = start + 60s;
    return situation;
}

TEST(DiagnosisDocument, has_all_that_was_seen_and_found) {
    std::vector<Finding> const findings{
        {Severity::error, "no_answer", "10.0.0.9:4001 was not reached", "look at its firewall"}
    };
    auto const expected = Json::parse(R"({
        "node_id": "12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5",
        "isolated": false,
        "for_s": 60.0,
        "listen": ["/ip4/0.0.0.0/tcp/4001"],
        "interfaces": [{
            "name": "eth0", "kind": "ethernet", "family": "ip4", "ips": ["10.0.0.1"],
            "for_s": 60.0, "packets_sent": 3, "packets_returned": 2,
            "heard": [{"ip": "10.0.0.2", "ago_s": 2.0}], "own_id_at": [], "error": null
        }],
        "peers": [
            {
                "peer_id": null, "name": null, "connected": false, "connections": [],
                "addresses": [{
                    "address": "/ip4/10.0.0.9/tcp/4001", "bootstrap": true, "failures": 2,
                    "error": "no answer from 10.0.0.9:4001"
                }]
            },
            {
                "peer_id": "12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq",
                "name": "cellar", "connected": true,
                "connections": [{
                    "connection_id": 7, "remote_ip": "10.0.0.2", "remote_tcp_port": 4001,
                    "outbound": true, "for_s": 49.9
                }],
                "addresses": [{
                    "address":
            "/ip4/10.0.0.2/tcp/4001/p2p/12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq",
                    "bootstrap": false, "failures": 0, "error": null
                }]
            }
        ],
        "refused": [{"ip": "10.0.0.3", "reason": "garbage", "count": 4, "ago_s": 10.0}],
        "announced": [{
            "name": "cellar", "peer_id": "12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq",
            "version": "0.2.0", "same_network": true, "interface": "eth0",
            "addresses": ["/ip4/10.0.0.2/tcp/4001"], "for_s": 60.0, "gone_s": null
        }],
        "findings": [{
            "severity": "error", "code": "no_answer",
            "message": "10.0.0.9:4001 was not reached", "remedy": "look at its firewall"
        }]
    })");
    EXPECT_EQ(diagnosis_document(everything(), findings), expected)
        << diagnosis_document(everything(), findings).dump(2);
}

TEST(DiagnosisDocument, of_nothing_has_every_name_all_the_same) {
    auto const document = diagnosis_document(Situation(), {});
    for (auto const* name : {"interfaces", "peers", "refused", "announced", "findings", "listen"}) {
        EXPECT_EQ(document.at(name), Json::array()) << name;
    }
    EXPECT_EQ(document.at("isolated"), true);
}

} // namespace
} // namespace exo::net
