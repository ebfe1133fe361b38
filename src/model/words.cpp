// SPDX-License-Identifier: Apache-2.0
//
// What instances, tasks and statuses have in common, whatever kind they are.
#include "base/overloaded.hpp"
#include "model/instance.hpp"
#include "model/runner_status.hpp"
#include "model/task.hpp"

#include <algorithm>
#include <set>

namespace exo::model {
namespace {

// Of the first rank: all ranks of an instance run the same model.
ModelCard const& card_of(ShardMetadata const& shard) {
    return std::visit([](auto const& kind) -> ModelCard const& { return kind.model_card; }, shard);
}

} // namespace

InstanceId const& instance_id(Instance const& instance) {
    return std::visit([](auto const& k) -> InstanceId const& { return k.instance_id; }, instance);
}

ShardAssignments const& shard_assignments(Instance const& instance) {
    return std::visit(
        [](auto const& kind) -> ShardAssignments const& { return kind.shard_assignments; }, instance
    );
}

ModelCard const& model_card(Instance const& instance) {
    static ModelCard const none; // Of a document from outside that has no rank.
    auto const& shards = shard_assignments(instance).runner_to_shard;
    return shards.empty() ? none : card_of(shards.begin()->second);
}

WishId const& wish_id(Instance const& instance) {
    return std::visit([](auto const& kind) -> WishId const& { return kind.wish_id; }, instance);
}

Generation generation(Instance const& instance) {
    return std::visit([](auto const& kind) { return kind.generation; }, instance);
}

void set_generation(Instance& instance, Generation generation) {
    std::visit([&](auto& kind) { kind.generation = generation; }, instance);
}

std::uint32_t context_length(Instance const& instance) {
    return std::visit([](auto const& kind) { return kind.context_length; }, instance);
}

InstanceSettings const& settings(Instance const& instance) {
    return std::visit(
        [](auto const& kind) -> InstanceSettings const& { return kind.settings; }, instance
    );
}

std::uint32_t device_rank(ShardMetadata const& shard) {
    return std::visit([](auto const& kind) { return kind.device_rank; }, shard);
}

std::uint32_t world_size(ShardMetadata const& shard) {
    return std::visit([](auto const& kind) { return kind.world_size; }, shard);
}

bool is_well_formed(Instance const& instance) {
    auto const& assignments = shard_assignments(instance);
    auto const& shards = assignments.runner_to_shard;
    if (shards.empty() || shards.size() != assignments.node_to_runner.size()) {
        return false;
    }
    std::set<std::uint32_t> ranks;
    for (auto const& [node, runner] : assignments.node_to_runner) {
        auto const shard = shards.find(runner);
        if (shard == shards.end() || shard->second.index() != shards.begin()->second.index() ||
            card_of(shard->second) != card_of(shards.begin()->second) ||
            world_size(shard->second) != shards.size()) {
            return false;
        }
        ranks.insert(device_rank(shard->second));
    }
    return ranks.size() == shards.size() && *ranks.rbegin() == shards.size() - 1;
}

std::vector<NodeId> nodes_by_rank(Instance const& instance) {
    auto const& assignments = shard_assignments(instance);
    std::vector<std::pair<std::uint32_t, NodeId>> ranks;
    for (auto const& [node, runner] : assignments.node_to_runner) {
        auto const shard = assignments.runner_to_shard.find(runner);
        if (shard != assignments.runner_to_shard.end()) {
            ranks.emplace_back(device_rank(shard->second), node);
        }
    }
    std::ranges::sort(ranks);
    std::vector<NodeId> nodes;
    for (auto& [rank, node] : ranks) {
        nodes.push_back(std::move(node));
    }
    return nodes;
}

RunnerId const* runner_of(Instance const& instance, NodeId const& node) {
    auto const& runners = shard_assignments(instance).node_to_runner;
    auto const found = runners.find(node);
    return found == runners.end() ? nullptr : &found->second;
}

bool serves(RunnerStatus const& status) {
    return std::holds_alternative<RunnerReady>(status) ||
           std::holds_alternative<RunnerRunning>(status);
}

bool is_terminal(TaskStatus status) {
    switch (status) {
    case TaskStatus::pending:
    case TaskStatus::running:
        return false;
    case TaskStatus::complete:
    case TaskStatus::timed_out:
    case TaskStatus::failed:
    case TaskStatus::cancelled:
        return true;
    }
    return true;
}

TaskId const& task_id(Task const& task) {
    return std::visit([](auto const& kind) -> TaskId const& { return kind.task_id; }, task);
}

InstanceId const& task_instance(Task const& task) {
    return std::visit([](auto const& kind) -> InstanceId const& { return kind.instance_id; }, task);
}

TaskStatus task_status(Task const& task) {
    return std::visit([](auto const& kind) { return kind.task_status; }, task);
}

std::string const& task_error(Task const& task) {
    return std::visit(
        [](auto const& kind) -> std::string const& { return kind.error_message; }, task
    );
}

void set_task_status(Task& task, TaskStatus status, std::string error_message) {
    std::visit(
        [&](auto& kind) {
            kind.task_status = status;
            kind.error_message = std::move(error_message);
        },
        task
    );
}

} // namespace exo::model
