// SPDX-License-Identifier: Apache-2.0
//
// What this node says of itself to the others, again and again (model::NodeInfo).
#pragma once

#include "model/node_info.hpp"
#include "node/catalogue.hpp"
#include "node/cluster/driver.hpp"
#include "node/options.hpp"
#include "node/worker/worker.hpp"

namespace exo::node {

class Observer {
public:
    // Memory is what placement needs fresh: it changes within seconds.
    static constexpr Duration interval = 2s;

    // All outlive the observer.
    struct Context {
        net::Host& host;
        ClusterDriver& cluster;
        Catalogue const& catalogue;
        Worker const& worker;
        Notify& catalogue_changed;
    };

    Observer(Context const& context, NodeOptions const& options, std::string exo_version);

    // The port of the API, once it is known.
    void set_api_port(std::uint16_t port) { api_port_ = port; }

    // Says it now.
    void tell();

    // Says it each interval, and when the models change; for ever.
    asio::awaitable<void> run();

private:
    [[nodiscard]] model::NodeInfo look() const;

    Context context_;
    NodeOptions const& options_;
    model::NodeIdentity identity_;
    std::uint16_t api_port_ = 0;
};

} // namespace exo::node
