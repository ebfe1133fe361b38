// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/join.hpp"

#include <algorithm>
#include <iterator>
#include <set>

namespace exo::cluster {
namespace {

using namespace model;

struct Verdict {
    bool decided = false;
    std::vector<Event> events;
};

bool is_alive(RunnerStatus const& status) {
    return !std::holds_alternative<RunnerFailed>(status) &&
           !std::holds_alternative<RunnerShutdown>(status);
}

// A1
Verdict judge_known(Instance const& known, NodeId const& node, ReportedRunner const& reported) {
    RunnerId const* const runner = runner_of(known, node);
    Generation const ours = generation(known);
    Generation const theirs = generation(reported.instance);
    if (runner == nullptr || *runner != reported.runner_id || theirs < ours) {
        return {.decided = true, .events = {}}; // Its worker will replace it.
    }
    Verdict verdict{.decided = true, .events = {}};
    if (theirs > ours) {
        verdict.events.push_back(
            InstanceRestarted{.instance_id = instance_id(known), .generation = theirs}
        );
    }
    verdict.events.push_back(RunnerStatusUpdated{
        .runner_id = reported.runner_id, .generation = theirs, .runner_status = reported.status
    });
    return verdict;
}

bool reports_alive(Report const& report, RunnerId const& runner, Instance const& instance) {
    return std::ranges::any_of(report.runners, [&](ReportedRunner const& reported) {
        return reported.runner_id == runner && reported.instance == instance &&
               is_alive(reported.status);
    });
}

// Every rank's node has reported this very document (so one generation) with its runner alive.
bool is_complete(OpenReports const& open, Instance const& instance) {
    auto const& runners = shard_assignments(instance).node_to_runner;
    return std::ranges::all_of(runners, [&](auto const& entry) {
        auto const& [node, runner] = entry;
        auto const found = open.by_node.find(node);
        return found != open.by_node.end() && reports_alive(found->second, runner, instance);
    });
}

// A2
Verdict judge_unknown(
    OpenReports const& open, State const& state, Instance const& instance, TimePoint now
) {
    InstanceId const& id = instance_id(instance);
    bool const is_deleted = std::ranges::count(state.deleted_instances, id) > 0;
    if (is_deleted || !is_well_formed(instance)) {
        return {.decided = true, .events = {}};
    }
    if (!state.wishes.contains(wish_id(instance))) {
        return {.decided = true, .events = {InstanceDeleted{.instance_id = id}}};
    }
    if (is_complete(open, instance)) {
        return {
            .decided = false, .events = {InstanceCreated{.instance = instance, .adopted = true}}
        };
    }
    auto const first = open.first_reported.find(id);
    bool const waits = first != open.first_reported.end() && now - first->second < adoption_wait;
    return {.decided = !waits, .events = {}};
}

// Reports of nodes that are gone, and first reports of instances that nobody reports any more.
void clean_up(OpenReports& open, State const& state) {
    std::erase_if(open.by_node, [&](auto const& entry) {
        return !state.members.contains(entry.first);
    });
    std::erase_if(open.first_reported, [&](auto const& first) {
        return std::ranges::none_of(open.by_node, [&](auto const& entry) {
            return std::ranges::any_of(entry.second.runners, [&](auto const& reported) {
                return instance_id(reported.instance) == first.first;
            });
        });
    });
}

bool is_current(State const& state, Report const& report) {
    auto const member = state.members.find(report.node_id);
    return member != state.members.end() && member->second.report_id == report.report_id;
}

} // namespace

std::vector<Event>
open_report(OpenReports& open, State const& state, Report report, TimePoint now) {
    if (is_current(state, report)) {
        return {};
    }
    NodeJoined const joined{
        .node_id = report.node_id, .boot = report.report_id.boot, .report_id = report.report_id
    };
    for (auto const& reported : report.runners) {
        InstanceId const& id = instance_id(reported.instance);
        if (!state.instances.contains(id)) {
            open.first_reported.try_emplace(id, now);
        }
    }
    open.by_node.insert_or_assign(joined.node_id, std::move(report));
    return {joined};
}

std::vector<Event> decide_reports(OpenReports& open, State const& state, TimePoint now) {
    std::vector<Event> events;
    std::vector<NodeId> settled;
    // Two ranks of one instance may both ask for an event that only one of them shall cause.
    std::set<InstanceId> touched;
    for (auto const& [node, report] : open.by_node) {
        if (!is_current(state, report)) {
            continue;
        }
        bool all_decided = true;
        for (auto const& reported : report.runners) {
            InstanceId const& id = instance_id(reported.instance);
            auto const known = state.instances.find(id);
            Verdict verdict = known != state.instances.end()
                                  ? judge_known(known->second, node, reported)
                                  : judge_unknown(open, state, reported.instance, now);
            all_decided = all_decided && verdict.decided;
            if (known != state.instances.end() || touched.insert(id).second) {
                std::ranges::move(verdict.events, std::back_inserter(events));
            }
        }
        if (all_decided) {
            events.push_back(NodeSettled{.node_id = node, .report_id = report.report_id});
            settled.push_back(node);
        }
    }
    for (auto const& node : settled) {
        open.by_node.erase(node);
    }
    clean_up(open, state);
    return events;
}

} // namespace exo::cluster
