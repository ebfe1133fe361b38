// SPDX-License-Identifier: Apache-2.0
#include "sim/fake_worker.hpp"

#include <algorithm>

namespace exo::sim {

bool FakeWorker::update(replica::Replica const& replica, TimePoint now) {
    bool changed = false;
    if (replica.settled()) {
        changed |= stop_unwanted(replica.state());
        changed |= start_wanted(replica.state(), replica.self(), now);
    }
    for (auto& [runner_id, runner] : runners_) {
        if (!runner.ready && now >= runner.ready_at) {
            runner.ready = true;
            changed = true;
        }
    }
    return changed;
}

// Also where State has another instance under the id: a command that two masters executed made it
// twice, with other ranks.
bool FakeWorker::stop_unwanted(model::State const& state) {
    auto const is_unwanted = [&](auto const& entry) {
        auto const& ours = entry.second.instance;
        auto const wanted = state.instances.find(model::instance_id(ours));
        return wanted == state.instances.end() ||
               model::shard_assignments(wanted->second) != model::shard_assignments(ours) ||
               model::generation(wanted->second) > model::generation(ours);
    };
    return std::erase_if(runners_, is_unwanted) > 0;
}

bool FakeWorker::start_wanted(model::State const& state, model::NodeId const& self, TimePoint now) {
    bool changed = false;
    for (auto const& [instance_id, instance] : state.instances) {
        auto const* const runner_id = model::runner_of(instance, self);
        if (runner_id && !runners_.contains(*runner_id)) {
            runners_.emplace(*runner_id, Runner{instance, now + load_time_, false});
            changed = true;
        }
    }
    return changed;
}

std::optional<TimePoint> FakeWorker::deadline() const {
    std::optional<TimePoint> next;
    for (auto const& [runner_id, runner] : runners_) {
        if (!runner.ready) {
            next = std::min(next.value_or(runner.ready_at), runner.ready_at);
        }
    }
    return next;
}

replica::LevelsChanged FakeWorker::report() const {
    replica::LevelsChanged levels;
    for (auto const& [runner_id, runner] : runners_) {
        auto const status = runner.ready ? model::RunnerStatus(model::RunnerReady{})
                                         : model::RunnerStatus(model::RunnerLoading{});
        levels.runners.push_back({runner.instance, runner_id, status});
    }
    return levels;
}

} // namespace exo::sim
