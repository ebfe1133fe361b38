// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/choose.hpp"

#include <algorithm>
#include <optional>

namespace exo::cluster {
namespace {

using namespace model;

std::uint32_t open_tasks(State const& state, InstanceId const& instance) {
    return static_cast<std::uint32_t>(std::ranges::count_if(state.tasks, [&](auto const& entry) {
        return task_instance(entry.second) == instance && !is_terminal(task_status(entry.second));
    }));
}

// Why the instance takes no requests now; empty if it does.
std::string
why_not_ready(State const& state, Instance const& instance, std::set<NodeId> const& silent) {
    for (auto const& node : nodes_by_rank(instance)) {
        if (silent.contains(node)) {
            return "node " + node.value() + " does not answer";
        }
        auto const status = state.runners.find(*runner_of(instance, node));
        if (status == state.runners.end()) {
            return "it starts on node " + node.value();
        }
        if (std::holds_alternative<RunnerFailed>(status->second)) {
            return "it failed on node " + node.value() + " and will be started again: " +
                   std::get<RunnerFailed>(status->second).error_message;
        }
        if (!serves(status->second)) {
            return "it loads on node " + node.value();
        }
    }
    return is_well_formed(instance) ? "" : "its description is damaged";
}

Error without_instance(State const& state, ModelId const& model) {
    std::optional<std::string> refusal;
    for (auto const& [id, wish] : state.wishes) {
        if (wish.model_card.model_id != model) {
            continue;
        }
        if (wish.refusal.empty()) {
            return {Errc::unavailable, model.value() + " is about to be placed"};
        }
        refusal = wish.refusal;
    }
    return refusal ? Error(Errc::conflict, *refusal)
                   : Error(Errc::not_found, "no instance of " + model.value());
}

} // namespace

Result<InstanceId> choose_instance(
    State const& state,
    ModelId const& model_id,
    InFlight const& in_flight,
    std::set<NodeId> const& silent
) {
    std::optional<std::pair<std::uint32_t, InstanceId>> best; // Requests, then id.
    std::optional<std::string> waiting;
    for (auto const& [id, instance] : state.instances) {
        if (model_card(instance).model_id != model_id) {
            continue;
        }
        std::string const why = why_not_ready(state, instance, silent);
        if (!why.empty()) {
            waiting = "instance " + id.value() + " of " + model_id.value() + ": " + why;
            continue;
        }
        auto const known = in_flight.find(id);
        std::uint32_t const requests =
            std::max(open_tasks(state, id), known == in_flight.end() ? 0 : known->second);
        std::pair const candidate(requests, id);
        best = best ? std::min(*best, candidate) : candidate;
    }
    if (best) {
        return best->second;
    }
    if (waiting) {
        return Error(Errc::unavailable, *waiting);
    }
    return without_instance(state, model_id);
}

} // namespace exo::cluster
