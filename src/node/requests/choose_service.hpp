// SPDX-License-Identifier: Apache-2.0
//
// The master's answer to "which instance should take this request?" (specs/cluster.md T1). It sees
// the requests of all API nodes before State does, so it remembers what it has just given out.
#pragma once

#include "node/cluster/driver.hpp"

#include <deque>

namespace exo::node {

class ChooseService {
public:
    // How long a choice counts before the task must have shown up in State.
    static constexpr Duration remembered = 2s;
    static constexpr std::size_t remembered_max = 1024;

    // Registers with the host.
    ChooseService(net::Host& host, ClusterDriver& cluster);

    // The choice for a request of this node, or of another if we are the master.
    [[nodiscard]] Result<model::InstanceId> choose(model::ModelId const& model);

private:
    struct Choice {
        model::InstanceId instance;
        TimePoint time;
    };

    asio::awaitable<void> serve(std::unique_ptr<net::Stream> stream);

    ClusterDriver& cluster_;
    std::deque<Choice> recent_;
};

} // namespace exo::node
