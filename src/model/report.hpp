// SPDX-License-Identifier: Apache-2.0
//
// What a worker really runs, as it tells a master: in full on joining a session (Report), and as
// levels ever after (specs/cluster.md S8, S10).
#pragma once

#include "model/event.hpp"
#include "model/instance.hpp"
#include "model/runner_status.hpp"

#include <vector>

namespace exo::model {

// The whole document goes along, so that a master that has never heard of the instance can adopt
// it (A2). `instance` carries the generation that the runner runs.
struct ReportedRunner {
    Instance instance;
    RunnerId runner_id;
    RunnerStatus status;

    bool operator==(ReportedRunner const&) const = default;
};

struct Report {
    NodeId node_id;
    ReportId report_id;                  // Its boot is the node's.
    std::vector<ReportedRunner> runners; // Alive. Tasks follow as levels once it is settled.

    bool operator==(Report const&) const = default;
};

} // namespace exo::model
