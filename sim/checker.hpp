// SPDX-License-Identifier: Apache-2.0
//
// Watches what no node can see: the invariants of specs/cluster.md section 7, over all nodes and
// all their lives. A violation throws Violation.
#pragma once

#include "core/replica/replica.hpp"

#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace exo::sim {

class Violation : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

class Checker {
public:
    // After each step of a node.
    void
    after_step(model::Boot boot, replica::Replica const& replica, replica::Outputs const& outputs);

    // What was on the node's disk before: the clock never falls, restarts included (I3).
    void on_store_clock(model::NodeId const& node_id, std::uint64_t clock);

private:
    struct Known {
        std::string event;
        std::string chain;
        std::string state; // Empty until someone stood exactly here.
    };

    void
    on_appended(model::Boot boot, replica::Replica const& replica, replica::Record const& record);
    void check_state(replica::Replica const& replica);

    std::map<model::Position, Known> records_;
    std::map<model::Session, model::Boot> sessions_; // By whom started.
    std::map<model::NodeId, std::uint64_t> clocks_;
    std::map<model::Boot, election::Ballot> elected_;
};

// All of State as text, for comparison.
[[nodiscard]] std::string text_of(model::State const& state);

} // namespace exo::sim
