// SPDX-License-Identifier: Apache-2.0
//
// Gathers what a diagnosis of the network is made of: what the host has seen, what the other nodes
// say of their connections and since when that differs. net/diagnosis judges it.
//
// Network thread.
#pragma once

#include "net/diagnosis/diagnosis.hpp"
#include "net/diagnosis/link_watch.hpp"
#include "node/announce.hpp"
#include "node/cluster/driver.hpp"
#include "node/network/network_follower.hpp"
#include "node/options.hpp"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace exo::node {

class NetworkWatch {
public:
    // As often as nodes tell of their connections.
    static constexpr Duration interval = 2s;

    // All outlive it.
    NetworkWatch(
        net::Host const& host,
        ClusterDriver const& cluster,
        Announce const& announce,
        NetworkFollower const& network,
        NodeOptions const& options,
        std::string exo_version
    );

    // Compares what the nodes say, each interval, for ever.
    asio::awaitable<void> run();

    // GET /network/diagnosis.
    [[nodiscard]] nlohmann::json document() const;

private:
    [[nodiscard]] std::vector<net::Neighbour> neighbours() const;
    [[nodiscard]] net::Situation situation() const;

    net::Host const& host_;
    ClusterDriver const& cluster_;
    Announce const& announce_;
    NetworkFollower const& network_;
    NodeOptions const& options_;
    std::string exo_version_;
    TimePoint started_;
    net::LinkWatch links_;
};

} // namespace exo::node
