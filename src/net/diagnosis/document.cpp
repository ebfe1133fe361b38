// SPDX-License-Identifier: Apache-2.0
#include "net/diagnosis/document.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <map>

namespace exo::net {
namespace {

using Json = nlohmann::json;

// Whole tenths: what is finer is noise.
double seconds(Duration time) {
    using Tenths = std::chrono::duration<std::int64_t, std::deci>;
    return static_cast<double>(std::chrono::duration_cast<Tenths>(time).count()) / 10;
}

Json heard_document(LinkFacts const& link, TimePoint now) {
    Json list = Json::array();
    for (auto const& [ip, last] : link.heard) {
        list.push_back({{"ip", ip}, {"ago_s", seconds(now - last)}});
    }
    return list;
}

Json connection_document(ConnectionFacts const& connection, TimePoint now) {
    return {
        {"connection_id", connection.id},
        {"remote_ip", connection.remote_ip},
        {"remote_tcp_port", connection.remote_tcp_port},
        {"outbound", connection.outbound},
        {"for_s", seconds(now - connection.since)},
    };
}

Json dial_document(DialFacts const& dial) {
    return {
        {"address", dial.address.text()},
        {"bootstrap", dial.given},
        {"failures", dial.failures},
        {"error", dial.error.empty() ? Json() : Json(dial.error)},
    };
}

// All that is known of one peer; of the bootstrap addresses that nobody has answered at, nothing
// but these.
struct Peer {
    std::string name;
    Json connections = Json::array();
    Json addresses = Json::array();
};

Json peers_document(Situation const& situation) {
    std::map<std::string, Peer> peers;
    for (auto const& connection : situation.network.connections) {
        peers[connection.peer.text()].connections.push_back(
            connection_document(connection, situation.now)
        );
    }
    for (auto const& dial : situation.network.dials) {
        peers[dial.peer ? dial.peer->text() : ""].addresses.push_back(dial_document(dial));
    }
    for (auto const& neighbour : situation.neighbours) {
        if (auto const found = peers.find(neighbour.peer.text()); found != peers.end()) {
            found->second.name = neighbour.name;
        }
    }
    Json list = Json::array();
    for (auto& [id, peer] : peers) {
        list.push_back({
            {"peer_id", id.empty() ? Json() : Json(id)},
            {"name", peer.name.empty() ? Json() : Json(peer.name)},
            {"connected", !peer.connections.empty()},
            {"connections", std::move(peer.connections)},
            {"addresses", std::move(peer.addresses)},
        });
    }
    return list;
}

Json refused_document(Situation const& situation) {
    Json list = Json::array();
    for (auto const& one : situation.network.refusals) {
        list.push_back({
            {"ip", one.ip},
            {"reason", one.reason},
            {"count", one.count},
            {"ago_s", seconds(situation.now - one.last)},
        });
    }
    return list;
}

Json announced_document(Situation const& situation) {
    Json list = Json::array();
    for (auto const& one : situation.network.announced) {
        list.push_back({
            {"name", one.name},
            {"peer_id", one.peer},
            {"version", one.version},
            {"same_network", one.same_network},
            {"interface", one.interface},
            {"addresses", one.addresses},
            {"for_s", seconds(situation.now - one.since)},
            {"gone_s", one.gone ? Json(seconds(situation.now - *one.gone)) : Json()},
        });
    }
    return list;
}

Json listen_document(std::vector<Multiaddr> const& listen) {
    Json list = Json::array();
    for (auto const& address : listen) {
        list.push_back(address.text());
    }
    return list;
}

} // namespace

Json interfaces_document(std::span<LinkFacts const> links, TimePoint now) {
    Json list = Json::array();
    for (auto const& link : links) {
        Json twins = Json::array();
        for (auto const& [address, last] : link.twins) {
            twins.push_back(address.text());
        }
        Json ips = Json::array();
        for (auto const& address : link.addresses) {
            ips.push_back(address.text);
        }
        list.push_back({
            {"name", link.interface},
            {"kind", to_string(link.kind)},
            {"family", link.is_ip4 ? "ip4" : "ip6"},
            {"ips", std::move(ips)},
            {"for_s", seconds(now - link.since)},
            {"packets_sent", link.packets_sent},
            {"packets_returned", link.packets_looped},
            {"heard", heard_document(link, now)},
            {"own_id_at", std::move(twins)},
            {"error", link.error.empty() ? Json() : Json(link.error)},
        });
    }
    return list;
}

Json findings_document(std::span<Finding const> findings) {
    Json list = Json::array();
    for (auto const& finding : findings) {
        list.push_back({
            {"severity", to_string(finding.severity)},
            {"code", finding.code},
            {"message", finding.message},
            {"remedy", finding.remedy},
        });
    }
    return list;
}

Json diagnosis_document(Situation const& situation, std::span<Finding const> findings) {
    auto const& network = situation.network;
    return {
        {"node_id", network.self.text()},
        {"isolated", network.connections.empty()},
        {"for_s", seconds(situation.now - situation.started)},
        {"listen", listen_document(network.listen)},
        {"interfaces", interfaces_document(network.links, situation.now)},
        {"peers", peers_document(situation)},
        {"refused", refused_document(situation)},
        {"announced", announced_document(situation)},
        {"findings", findings_document(findings)},
    };
}

} // namespace exo::net
