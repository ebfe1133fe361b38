// SPDX-License-Identifier: Apache-2.0
//
// A worker without runners: what State wants of this node is Loading, then Ready after a while. It
// keeps the rule of W1: it acts on State only while settled.
#pragma once

#include "base/time.hpp"
#include "core/replica/replica.hpp"

#include <map>
#include <optional>

namespace exo::sim {

class FakeWorker {
public:
    explicit FakeWorker(Duration load_time)
        : load_time_(load_time) {}

    // True if something has changed: then report().
    [[nodiscard]] bool update(replica::Replica const& replica, TimePoint now);

    [[nodiscard]] std::optional<TimePoint> deadline() const;

    [[nodiscard]] replica::LevelsChanged report() const;

    struct Runner {
        model::Instance instance;
        TimePoint ready_at;
        bool ready = false;
    };

    [[nodiscard]] std::map<model::RunnerId, Runner> const& runners() const { return runners_; }

private:
    [[nodiscard]] bool stop_unwanted(model::State const& state);
    [[nodiscard]] bool
    start_wanted(model::State const& state, model::NodeId const& self, TimePoint now);

    Duration load_time_;
    std::map<model::RunnerId, Runner> runners_;
};

} // namespace exo::sim
