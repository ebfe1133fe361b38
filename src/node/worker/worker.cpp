// SPDX-License-Identifier: Apache-2.0
#include "node/worker/worker.hpp"

#include "base/log.hpp"
#include "core/placement/placement.hpp"
#include "net/host/async.hpp"
#include "node/interfaces.hpp"
#include "system/process.hpp"

#include <fmt/format.h>

namespace exo::node {
namespace {

// Besides each change: rules that depend on time (a back-off, a level that was not taken over).
constexpr Duration act_interval = 500ms;
constexpr Duration stop_recheck = 100ms;

using net::now;

std::vector<std::string> own_addresses() {
    std::vector<std::string> addresses;
    for (auto const& interface : network_interfaces()) {
        addresses.push_back(interface.ip_address);
    }
    // For ranks on this machine when it has no network. A stranger at the other end of it is
    // refused by the group's key.
    addresses.emplace_back("127.0.0.1");
    return addresses;
}

Error not_on_disk(char const* what, model::ModelId const& id) {
    return {Errc::not_found, fmt::format("{} {} is not on this node's disk", what, id.value())};
}

std::vector<std::string> path_texts(storage::LocalModel const& local) {
    std::vector<std::string> texts;
    for (auto const& path : local.paths) {
        texts.push_back(path.string());
    }
    return texts;
}

} // namespace

Worker::Worker(Context const& context, Options options)
    : context_(context)
    , options_(std::move(options)) {}

asio::awaitable<void> Worker::run() {
    while (true) {
        context_.tasks.tick(context_.cluster.state(), now());
        act();
        co_await context_.cluster.changed().wait(act_interval);
    }
}

asio::awaitable<void> Worker::stop() {
    stopping_ = true;
    for (auto& [key, rank] : ranks_) {
        rank.joining.reset();
        context_.tasks.instance_ended(rank.local.instance_id, "this node is stopping", now());
        if (rank.supervisor) {
            rank.supervisor->stop("the node is stopping");
        }
    }
    auto const some_run = [this] {
        return std::ranges::any_of(ranks_, [](auto const& entry) {
            return entry.second.supervisor && entry.second.supervisor->running();
        });
    };
    while (some_run()) {
        co_await changed_.wait(stop_recheck);
    }
}

// ---- State says, we do

void Worker::act() {
    if (stopping_) {
        return;
    }
    while (
        auto const action = plan::next_action(
            context_.cluster.state(), context_.cluster.self(), context_.cluster.settled(), locals()
        )
    ) {
        std::visit([this](auto const& what) { carry_out(what); }, *action);
    }
    for (auto const& old :
         plan::forgettable(context_.cluster.state(), context_.cluster.self(), locals())) {
        ranks_.erase(Key(old.runner_id, old.generation));
    }
    report();
}

void Worker::carry_out(plan::CreateRunner const& action) {
    Key const key(action.runner_id, action.generation);
    auto& rank = ranks_[key];
    rank.instance = action.instance;
    rank.device_rank = action.device_rank;
    rank.local.runner_id = action.runner_id;
    rank.local.instance_id = instance_id(action.instance);
    rank.local.generation = action.generation;
    rank.local.status = model::RunnerIdle{};
    rank.local.process = plan::Process::running;
    log::info(
        "worker",
        "starting rank {} of {} ({})",
        action.device_rank,
        model_card(action.instance).model_id.value(),
        rank.local.instance_id.value()
    );
    start_process(key, rank);
}

void Worker::carry_out(plan::StopRunner const& action) {
    auto* const rank = find(Key(action.runner_id, action.generation));
    if (rank == nullptr) {
        return;
    }
    rank->local.process = plan::Process::ending;
    rank->joining.reset();
    context_.tasks.instance_ended(rank->local.instance_id, action.text, now());
    if (rank->supervisor && rank->supervisor->running()) {
        rank->supervisor->stop(action.text);
    } else {
        rank->local.process = plan::Process::gone;
    }
}

void Worker::start_process(Key const& key, Rank& rank) {
    auto const start = start_message(rank);
    if (!start) {
        fail(key, start.error().text());
        return;
    }
    rank.supervisor = std::make_unique<RunnerSupervisor>(
        context_.scope.executor(), options_.supervisor, callbacks(key)
    );
    if (auto const started = rank.supervisor->start(*start); !started) {
        fail(key, started.error().text());
        return;
    }
    if (start->world_size == 1) {
        rank.joining = context_.scope.spawn_owned("connecting a runner", join(key, {}));
    }
}

Result<ipc::Start> Worker::start_message(Rank const& rank) const {
    auto const& card = model_card(rank.instance);
    auto const* const local = context_.catalogue.find(card.model_id);
    if (local == nullptr) {
        return not_on_disk("model", card.model_id);
    }
    ipc::Start start;
    start.instance_id = rank.local.instance_id;
    start.runner_id = rank.local.runner_id;
    start.generation = rank.local.generation;
    start.device_rank = rank.device_rank;
    start.shares = placement::shares_by_rank(rank.instance); // It is well formed: core/plan looks.
    start.world_size = static_cast<std::uint32_t>(start.shares.size());
    auto const& shard = shard_assignments(rank.instance).runner_to_shard.begin()->second;
    start.sharding = std::holds_alternative<model::TensorShardMetadata>(shard)
                         ? model::Sharding::tensor
                         : model::Sharding::pipeline;
    start.model_paths = path_texts(*local);
    start.context_length = context_length(rank.instance);
    start.micro_batch = options_.micro_batch;
    start.threads = options_.threads;
    start.private_networks = options_.private_networks;
    start.settings = settings(rank.instance);
    if (start.settings.draft_model && start.device_rank == 0) {
        auto const* const draft = context_.catalogue.find(*start.settings.draft_model);
        if (draft == nullptr) {
            return not_on_disk("draft model", *start.settings.draft_model);
        }
        start.draft_paths = path_texts(*draft);
    }
    start.device = options_.device;
    return start;
}

// ---- what a runner says

SupervisorCallbacks Worker::callbacks(Key const& key) {
    SupervisorCallbacks callbacks;
    callbacks.on_listening = [this, key](std::uint16_t port) { on_listening(key, port); };
    callbacks.on_status = [this, key](model::RunnerStatus status) {
        on_status(key, std::move(status));
    };
    callbacks.on_event = [this](model::TaskId task, model::GenerationEvent event) {
        context_.tasks.on_event(task, std::move(event), now());
    };
    callbacks.on_exit = [this, key](ExitReport report) { on_exit(key, std::move(report)); };
    return callbacks;
}

void Worker::on_listening(Key const& key, std::uint16_t port) {
    if (auto* const rank = find(key); rank != nullptr && !stopping_) {
        ipc::RankEndpoint endpoint;
        endpoint.addresses = own_addresses();
        endpoint.port = port;
        rank->joining =
            context_.scope.spawn_owned("joining a group", join(key, std::move(endpoint)));
    }
}

void Worker::on_status(Key const& key, model::RunnerStatus status) {
    auto* const rank = find(key);
    if (rank == nullptr || rank->local.process != plan::Process::running) {
        return;
    }
    rank->local.status = std::move(status);
    report();
}

void Worker::on_exit(Key const& key, ExitReport report) {
    auto* const rank = find(key);
    if (rank == nullptr) {
        return;
    }
    bool const expected = report.orderly && rank->failure.empty();
    auto message = rank->failure.empty() ? std::move(report.message) : rank->failure;
    if (!expected) {
        log::warning("worker", "rank {} ended: {}", rank->device_rank, message);
    }
    context_.tasks.instance_ended(rank->local.instance_id, message, now());
    rank->local.process = plan::Process::gone;
    if (expected) {
        rank->local.status = model::RunnerShutdown{};
    } else {
        rank->local.status = model::RunnerFailed{std::move(message), std::move(report.last_lines)};
    }
    changed_.notify();
    act();
}

// Ends the rank's process, if there is one, and says why it failed.
void Worker::fail(Key const& key, std::string message) {
    auto* const rank = find(key);
    if (rank == nullptr) {
        return;
    }
    rank->failure = std::move(message);
    if (rank->supervisor && rank->supervisor->running()) {
        rank->local.process = plan::Process::ending;
        rank->supervisor->stop(rank->failure);
        return;
    }
    log::warning("worker", "rank {} failed: {}", rank->device_rank, rank->failure);
    rank->local.process = plan::Process::gone;
    rank->local.status = model::RunnerFailed{rank->failure, {}};
}

asio::awaitable<void> Worker::join(Key key, ipc::RankEndpoint endpoint) {
    auto const* const rank = find(key);
    if (rank == nullptr) {
        co_return;
    }
    auto const instance = rank->instance;
    auto const rank_index = rank->device_rank;
    auto const nodes = nodes_by_rank(instance);
    auto const world_size = static_cast<std::uint32_t>(nodes.size());
    Result<ipc::Connect> connect = ipc::Connect();
    if (world_size > 1 && rank_index == 0) {
        connect = co_await context_.groups.host_group(
            instance_id(instance), key.second, world_size, std::move(endpoint)
        );
    } else if (world_size > 1) {
        JoinGroup request;
        request.instance_id = instance_id(instance);
        request.generation = key.second;
        request.device_rank = rank_index;
        request.endpoint = std::move(endpoint);
        connect = co_await context_.groups.join_group(nodes.front(), std::move(request));
    }
    auto* const joined = find(key);
    if (joined == nullptr || !joined->supervisor) {
        co_return;
    }
    if (!connect) {
        fail(key, connect.error().text());
    } else if (auto const told = joined->supervisor->connect(*connect); !told) {
        fail(key, told.error().text());
    }
}

// ---- requests

Worker::Rank* Worker::find(Key const& key) {
    auto const found = ranks_.find(key);
    return found == ranks_.end() ? nullptr : &found->second;
}

Worker::Rank* Worker::serving(model::InstanceId const& instance) {
    for (auto& [key, rank] : ranks_) {
        if (rank.local.instance_id == instance && rank.device_rank == 0 &&
            rank.local.process == plan::Process::running) {
            return &rank;
        }
    }
    return nullptr;
}

Result<void>
Worker::generate(model::InstanceId const& instance, model::GenerationRequest const& request) {
    auto* const rank = serving(instance);
    if (rank == nullptr) {
        return Error(Errc::not_found, "the instance is gone from this node");
    }
    if (!serves(rank->local.status)) {
        return Error(Errc::unavailable, "the instance is not ready");
    }
    return rank->supervisor->generate(ipc::Generate{request});
}

void Worker::cancel(model::InstanceId const& instance, model::TaskId const& task) {
    if (auto* const rank = serving(instance)) {
        // A runner that cannot be told is ending anyway.
        (void)rank->supervisor->cancel(task);
    }
}

// ---- what the cluster should know

plan::LocalRunners Worker::locals() const {
    plan::LocalRunners locals;
    for (auto const& [key, rank] : ranks_) {
        locals.push_back(rank.local);
    }
    return locals;
}

void Worker::report() {
    std::vector<model::ReportedRunner> runners;
    for (auto const& [key, rank] : ranks_) {
        model::ReportedRunner runner;
        runner.runner_id = rank.local.runner_id;
        runner.instance = rank.instance;
        runner.status = rank.local.status;
        runners.push_back(std::move(runner));
    }
    std::vector<model::Task> tasks;
    for (auto& [id, task] : context_.tasks.levels()) {
        tasks.push_back(task);
    }
    context_.cluster.set_levels(std::move(runners), std::move(tasks));
}

std::uint64_t Worker::used_bytes() const {
    std::uint64_t bytes = 0;
    for (auto const& [key, rank] : ranks_) {
        if (auto const pid = rank.supervisor ? rank.supervisor->pid() : std::nullopt) {
            bytes += system::process_memory_bytes(*pid);
        }
    }
    return bytes;
}

} // namespace exo::node
