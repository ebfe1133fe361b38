// SPDX-License-Identifier: Apache-2.0
//
// What the master makes of the reports of joining nodes (specs/cluster.md S8.4, A1-A3). Pure.
//
// The order of a join: the joiner's log is on this lineage (S8.1: the replica's business), then
// open_report, then decide_reports until the node is settled. The master joins its own session too.
#pragma once

#include "base/time.hpp"
#include "model/event.hpp"
#include "model/report.hpp"
#include "model/state.hpp"

#include <map>
#include <vector>

namespace exo::cluster {

// An instance that not all its ranks have reported by then is not adopted (A2).
constexpr Duration adoption_wait = 10s;

// Reports that wait for a decision. A new session starts with an empty one.
struct OpenReports {
    std::map<model::NodeId, model::Report> by_node;
    // When an instance that is not in State was first reported.
    std::map<model::InstanceId, TimePoint> first_reported;
};

// Takes a report: NodeJoined, or nothing if this very report is known (the request is repeated each
// second). A newer report of the node replaces the open one.
[[nodiscard]] std::vector<model::Event>
open_report(OpenReports& open, model::State const& state, model::Report report, TimePoint now);

// Judges all instances of all open reports; a node whose instances are all decided is settled. Call
// after each open_report (once its events are applied) and with the duties; apply what it returns
// and call again while it returns something.
[[nodiscard]] std::vector<model::Event>
decide_reports(OpenReports& open, model::State const& state, TimePoint now);

} // namespace exo::cluster
