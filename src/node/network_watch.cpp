// SPDX-License-Identifier: Apache-2.0
#include "node/network_watch.hpp"

#include "net/diagnosis/document.hpp"
#include "net/host/async.hpp"

#include <nlohmann/json.hpp>

namespace exo::node {
namespace {

using net::now;

// Empty for a node that is none of libp2p: ids of others are their own business.
std::optional<net::Neighbour> neighbour_of(model::NodeInfo const& info) {
    auto const peer = net::PeerId::parse(info.node_id.value());
    if (!peer) {
        return std::nullopt;
    }
    net::Neighbour neighbour{.peer = *peer, .name = info.identity.friendly_name};
    for (auto const& interface : info.interfaces) {
        neighbour.ips.push_back(interface.ip_address);
    }
    for (auto const& link : info.links) {
        auto const other = net::PeerId::parse(link.peer.value());
        auto const address = net::Multiaddr::parse(link.address);
        auto const target = address ? address->tcp_target() : std::nullopt;
        if (other && target) {
            neighbour.links.push_back({.peer = *other, .ip = target->host});
        }
    }
    return neighbour;
}

} // namespace

NetworkWatch::NetworkWatch(
    net::Host const& host,
    ClusterDriver const& cluster,
    Announce const& announce,
    NetworkFollower const& network,
    NodeOptions const& options,
    std::string exo_version
)
    : host_(host)
    , cluster_(cluster)
    , announce_(announce)
    , network_(network)
    , options_(options)
    , exo_version_(std::move(exo_version))
    , started_(now()) {}

asio::awaitable<void> NetworkWatch::run() {
    while (true) {
        auto const nodes = neighbours();
        links_.update(nodes, now());
        co_await sleep_for(interval);
    }
}

std::vector<net::Neighbour> NetworkWatch::neighbours() const {
    std::vector<net::Neighbour> neighbours;
    for (auto const& [id, info] : cluster_.observations()) {
        if (auto neighbour = neighbour_of(info)) {
            neighbours.push_back(std::move(*neighbour));
        }
    }
    return neighbours;
}

net::Situation NetworkWatch::situation() const {
    net::Situation situation;
    situation.network = host_.facts();
    situation.network.announced = announce_.facts();
    situation.neighbours = neighbours();
    situation.missing_links = links_.missing();
    situation.network_name = network_.network_name();
    situation.version = exo_version_;
    situation.key_file = options_.paths.keypair().string();
    situation.with_discovery = options_.discovery;
    situation.started = started_;
    situation.now = now();
    situation.is_macos = net::this_is_macos;
    return situation;
}

nlohmann::json NetworkWatch::document() const {
    auto const seen = situation();
    return net::diagnosis_document(seen, net::judge(seen));
}

} // namespace exo::node
