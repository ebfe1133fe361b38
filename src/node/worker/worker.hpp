// SPDX-License-Identifier: Apache-2.0
//
// Runs the ranks that State gives to this node: asks core/plan what to do next, starts and ends
// runner processes, joins their groups, and tells the cluster what really runs. It decides nothing.
//
// One thread.
#pragma once

#include "core/plan/plan.hpp"
#include "node/catalogue.hpp"
#include "node/cluster/driver.hpp"
#include "node/requests/task_table.hpp"
#include "node/runner/supervisor.hpp"
#include "node/worker/group_service.hpp"

#include <map>
#include <memory>
#include <utility>

namespace exo::node {

class Worker {
public:
    struct Options {
        SupervisorOptions supervisor;
        std::uint32_t micro_batch = 0;
        std::uint32_t threads = 0;
        std::vector<std::string> private_networks;
        std::string device = "auto";
    };

    // All outlive the worker. `tasks` gets its hooks from tasks_hooks().
    struct Context {
        Scope& scope;
        ClusterDriver& cluster;
        GroupService& groups;
        Catalogue const& catalogue;
        TaskTable& tasks;
    };

    Worker(Context const& context, Options options);

    // Acts on each change of the cluster, for ever.
    asio::awaitable<void> run();

    // Ends all runners; completes when all are reaped.
    asio::awaitable<void> stop();

    // Errors: not_found (no such instance here, or another rank), unavailable (not ready).
    Result<void>
    generate(model::InstanceId const& instance, model::GenerationRequest const& request);
    void cancel(model::InstanceId const& instance, model::TaskId const& task);

    // Something that the cluster should know of (a task, a status) has changed.
    void report();

    // Memory of all runners.
    [[nodiscard]] std::uint64_t used_bytes() const;

private:
    // One start of one runner.
    struct Rank {
        plan::LocalRunner local;
        model::Instance instance;
        std::uint32_t device_rank = 0;
        std::unique_ptr<RunnerSupervisor> supervisor;
        std::unique_ptr<Scope::Handle> joining; // The coroutine that joins its group.
        std::string failure;                    // Why we end it, when that is not its own doing.
    };

    using Key = std::pair<model::RunnerId, model::Generation>;

    void act();
    void carry_out(plan::CreateRunner const& action);
    void carry_out(plan::StopRunner const& action);
    void start_process(Key const& key, Rank& rank);
    [[nodiscard]] Result<ipc::Start> start_message(Rank const& rank) const;
    [[nodiscard]] SupervisorCallbacks callbacks(Key const& key);

    void on_listening(Key const& key, std::uint16_t port);
    void on_status(Key const& key, model::RunnerStatus status);
    void on_exit(Key const& key, ExitReport report);
    void fail(Key const& key, std::string message);

    asio::awaitable<void> join(Key key, ipc::RankEndpoint endpoint);

    [[nodiscard]] plan::LocalRunners locals() const;
    [[nodiscard]] Rank* find(Key const& key);
    // Rank 0 of the instance, if it runs here.
    [[nodiscard]] Rank* serving(model::InstanceId const& instance);

    Context context_;
    Options options_;
    std::map<Key, Rank> ranks_;
    Notify changed_; // Of our own runners.
    bool stopping_ = false;
};

} // namespace exo::node
