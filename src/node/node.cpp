// SPDX-License-Identifier: Apache-2.0
#include "node/node.hpp"

#include "api/http/server.hpp"
#include "base/entropy.hpp"
#include "base/log.hpp"
#include "net/crypto/identity.hpp"
#include "node/announce.hpp"
#include "node/catalogue.hpp"
#include "node/cluster/driver.hpp"
#include "node/network/network_follower.hpp"
#include "node/network/own_port.hpp"
#include "node/network_watch.hpp"
#include "node/observer.hpp"
#include "node/probe/probe_service.hpp"
#include "node/requests/chat_request.hpp"
#include "node/requests/choose_service.hpp"
#include "node/requests/generate_service.hpp"
#include "node/requests/task_table.hpp"
#include "node/runner/orphans.hpp"
#include "node/settings.hpp"
#include "node/worker/worker.hpp"
#include "storage/models/find_card.hpp"

#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <map>

namespace exo::node {
namespace {

// What an earlier boot of this node left running has this long to go away.
constexpr Duration orphans_limit = 5s;

std::filesystem::path orphans_directory(NodeOptions const& options) {
    return options.paths.cache / "runners";
}

std::vector<net::Multiaddr> listen_addresses(std::uint16_t port) {
    return {net::Multiaddr::tcp("0.0.0.0", port).value(), net::Multiaddr::tcp("::", port).value()};
}

// A port that the user names is that one or an error; else the kept one, or another.
std::vector<std::uint16_t> listen_ports(NodeOptions const& options) {
    if (options.libp2p_port != 0) {
        return {options.libp2p_port};
    }
    // Reserved before the models are looked at, which takes time: `exo cluster create` may ask for
    // the port meanwhile.
    auto const reserved = reserve_port(options.paths.libp2p_port());
    return ports_to_try(reserved ? std::optional(*reserved) : std::nullopt, Random(random_u64()));
}

net::HostOptions host_options(
    NodeOptions const& options,
    NetworkFollower const& network,
    net::Identity identity,
    std::string const& exo_version
) {
    net::HostOptions host{.identity = std::move(identity)};
    host.psk = network.psk();
    for (auto const port : listen_ports(options)) {
        auto addresses = listen_addresses(port);
        if (host.listen.empty()) {
            host.listen = std::move(addresses);
        } else {
            host.listen_else.push_back(std::move(addresses));
        }
    }
    for (auto const& address : network.bootstrap()) {
        host.bootstrap.push_back(address.text());
    }
    host.topics = ClusterDriver::topics();
    host.agent_version = "exo/" + exo_version;
    host.mdns = options.discovery;
    return host;
}

// Not worth a failed start: only the next one would have another port.
void remember_port(std::filesystem::path const& file, std::vector<net::Multiaddr> const& listen) {
    auto const port = listen.at(0).tcp_target()->port;
    if (port == kept_port(file)) {
        return;
    }
    if (auto const kept = keep_port(file, port); !kept) {
        log::warning(
            "node", "the port {} is not kept for the next start: {}", port, kept.error().text()
        );
    }
}

ClusterDriver::Options driver_options(NodeOptions const& options, net::PeerId const& self) {
    return ClusterDriver::Options{
        .self = model::NodeId(self.text()),
        .boot = random_u64(),
        .force_master = options.force_master,
        .clock_file = options.paths.data / "election_clock",
    };
}

Worker::Options worker_options(NodeOptions const& options) {
    Worker::Options worker;
    worker.supervisor.executable = options.executable;
    worker.supervisor.orphans_directory = orphans_directory(options);
    worker.micro_batch = options.micro_batch;
    worker.threads = options.threads;
    worker.private_networks = options.private_networks;
    worker.device = options.device;
    return worker;
}

LocalProbeOptions probe_options(NodeOptions const& options) {
    LocalProbeOptions probe;
    probe.executable = options.executable;
    if (options.micro_batch != 0) {
        probe.arguments.emplace_back("--micro-batch");
        probe.arguments.push_back(std::to_string(options.micro_batch));
    }
    return probe;
}

// A joiner of a group must be the node that State gives the rank to.
bool is_rank(
    model::State const& state,
    model::NodeId const& node,
    model::InstanceId const& id,
    std::uint32_t rank
) {
    auto const instance = state.instances.find(id);
    if (instance == state.instances.end()) {
        return false;
    }
    auto const nodes = nodes_by_rank(instance->second);
    return rank < nodes.size() && nodes[rank] == node;
}

} // namespace

// In the order of construction: each may use those above it.
struct Node::Parts {
    Parts(
        boost::asio::any_io_executor const& executor,
        NodeOptions node_options,
        NetworkFollower network_follower,
        net::HostOptions network_options,
        std::unique_ptr<ClusterDriver> driver,
        std::string const& exo_version
    )
        : options(std::move(node_options))
        , scope(executor)
        , network(std::move(network_follower))
        , catalogue(options.paths)
        , cluster(std::move(driver))
        , host(executor, std::move(network_options), cluster->host_callbacks())
        , tasks(task_hooks())
        , groups(
              host,
              [this](auto const& node, auto const& instance, std::uint32_t rank) {
                  return is_rank(cluster->state(), node, instance, rank);
              }
          )
        , worker({scope, *cluster, groups, catalogue, tasks}, worker_options(options))
        , choose(host, *cluster)
        , probes(host, catalogue, probe_options(options))
        , generate(host, tasks, tasks_changed)
        , observer({host, *cluster, catalogue, worker, catalogue_changed}, options, exo_version)
        , announce(scope, host, options, exo_version)
        , network_watch(host, *cluster, announce, network, options, exo_version) {
        cluster->attach(host);
    }

    TaskTable::Hooks task_hooks() {
        TaskTable::Hooks hooks;
        hooks.start = [this](auto const& instance, auto const& request) {
            return worker.generate(instance, request);
        };
        hooks.cancel = [this](auto const& instance, auto const& task) {
            worker.cancel(instance, task);
        };
        hooks.events_added = [this] { tasks_changed.notify(); };
        hooks.levels_changed = [this] { worker.report(); };
        return hooks;
    }

    NodeOptions options;
    Scope scope;
    NetworkFollower network;
    Notify catalogue_changed;
    Notify tasks_changed;
    Catalogue catalogue;
    std::unique_ptr<ClusterDriver> cluster;
    net::Host host;
    TaskTable tasks;
    GroupService groups;
    Worker worker;
    ChooseService choose;
    ProbeService probes;
    GenerateService generate;
    Observer observer;
    Announce announce;
    NetworkWatch network_watch;
    std::unique_ptr<api::http::Server> server; // None with --no-api.
};

Node::Node(std::unique_ptr<Parts> parts)
    : parts_(std::move(parts)) {}

Node::~Node() = default;

Result<std::unique_ptr<Node>>
Node::create(boost::asio::any_io_executor executor, NodeOptions options, std::string exo_version) {
    auto identity = net::Identity::load_or_create(options.paths.keypair());
    if (!identity) {
        return identity.error();
    }
    auto network = NetworkFollower::create(options);
    if (!network) {
        return network.error();
    }
    auto const ended = Orphans(orphans_directory(options)).end_all(orphans_limit);
    if (!ended) {
        return ended.error();
    }
    for (auto const pid : *ended) {
        log::warning("node", "ended runner {} of an earlier start of this node", pid);
    }
    auto driver = ClusterDriver::create(executor, driver_options(options, identity->peer_id()));
    if (!driver) {
        return driver.error();
    }
    auto host = host_options(options, *network, std::move(*identity), exo_version);
    auto parts = std::make_unique<Parts>(
        executor,
        std::move(options),
        std::move(*network),
        std::move(host),
        std::move(*driver),
        exo_version
    );
    std::unique_ptr<Node> node(new Node(std::move(parts)));
    auto& made = *node->parts_;
    if (made.options.api) {
        api::http::Options server;
        server.host = made.options.api_host;
        server.port = made.options.api_port;
        made.server = std::make_unique<api::http::Server>(executor, *node, std::move(server));
    }
    return node;
}

Result<void> Node::start() {
    auto& parts = *parts_;
    // The API first: its port is the one that people choose, so the one that is taken.
    if (parts.server) {
        EXO_TRY(parts.server->start());
        parts.observer.set_api_port(parts.server->port());
    }
    EXO_TRY(parts.host.start());
    remember_port(parts.options.paths.libp2p_port(), parts.host.listen_addresses());
    parts.cluster->start();
    parts.observer.tell();
    if (parts.options.discovery) {
        parts.announce.start(parts.network.psk(), parts.server ? parts.server->port() : 0);
    }
    parts.scope.spawn("the network", parts.network.follow([&parts] {
        parts.host.set_bootstrap(parts.network.bootstrap());
        parts.host.set_psk(parts.network.psk());
        parts.announce.set_psk(parts.network.psk());
    }));
    parts.scope.spawn("the catalogue", parts.catalogue.run(parts.catalogue_changed));
    parts.scope.spawn("the observer", parts.observer.run());
    parts.scope.spawn("the watch on the network", parts.network_watch.run());
    if (parts.options.worker) {
        parts.scope.spawn("the worker", parts.worker.run());
    }
    for (auto const& local : parts.catalogue.models()) {
        log::info("node", "model {}", local.card.model_id.value());
    }
    return {};
}

boost::asio::awaitable<void> Node::stop() {
    auto& parts = *parts_;
    parts.announce.stop();
    if (parts.server) {
        Notify stopped;
        bool done = false;
        parts.server->stop([&] {
            done = true;
            stopped.notify();
        });
        while (!done) {
            co_await stopped.wait(1s);
        }
    }
    co_await parts.worker.stop();
    co_await parts.cluster->stop();
    co_await parts.scope.stop();
    co_await parts.host.stop();
}

model::NodeId const& Node::id() const {
    return parts_->cluster->self();
}

std::string Node::api_url() const {
    return parts_->server ? parts_->server->url() : "";
}

// ---- api::Backend

api::ClusterView Node::view() const {
    api::ClusterView view;
    view.node_id = id();
    view.master_node_id = parts_->cluster->master();
    view.state = &parts_->cluster->state();
    view.observations = &parts_->cluster->observations();
    return view;
}

nlohmann::json Node::network_diagnosis() const {
    return parts_->network_watch.document();
}

std::vector<model::ModelCard> Node::models() const {
    std::map<model::ModelId, model::ModelCard> cards; // Sorted, and each id once.
    for (auto const& local : parts_->catalogue.models()) {
        cards.emplace(local.card.model_id, local.card);
    }
    for (auto const& [node, info] : parts_->cluster->observations()) {
        for (auto const& card : info.models) {
            cards.emplace(card.model_id, card);
        }
    }
    std::vector<model::ModelCard> sorted;
    for (auto& [model, card] : cards) {
        sorted.push_back(std::move(card));
    }
    return sorted;
}

Result<model::ModelCard> Node::find_model(std::string const& model_id) const {
    return storage::find_card(models(), model_id);
}

model::InstanceSettings Node::default_settings(std::string const& model_id) const {
    auto const card = find_model(model_id);
    auto const& defaults = parts_->options.instance_settings;
    return card ? settings_for(*card, defaults, models()) : defaults;
}

void Node::place_instance(
    api::PlaceRequest request, std::function<void(Result<api::Placed>)> on_answer
) {
    model::CommandId const id(random_uuid());
    auto card = find_model(request.model_id);
    model::PlaceInstance wish;
    wish.wish_id = model::WishId(id.value());
    wish.sharding = request.sharding;
    wish.instance_meta = request.instance_meta;
    wish.min_nodes = request.min_nodes;
    wish.settings = request.settings;
    if (auto& draft = wish.settings.draft_model; card && draft) {
        if (auto const found = draft_for(*card, *draft, models())) {
            draft = *found;
        } else {
            card = found.error();
        }
    }
    auto answer = [](ClusterDriver& cluster,
                     ProbeService& probes,
                     model::CommandId command_id,
                     Result<model::ModelCard> found,
                     model::PlaceInstance command,
                     std::function<void(Result<api::Placed>)> done) -> asio::awaitable<void> {
        if (!found) {
            done(found.error());
            co_return;
        }
        auto holders = nodes_with(cluster.observations(), cluster.self(), found->model_id);
        auto judged = co_await probes.judge(*found, command.sharding, std::move(holders));
        if (!judged) {
            done(judged.error());
            co_return;
        }
        command.model_card = std::move(*judged);
        auto const outcome = co_await cluster.command(command_id, std::move(command));
        if (!outcome) {
            done(outcome.error());
            co_return;
        }
        api::Placed placed;
        placed.command_id = command_id;
        placed.instance_id = outcome->instance_id.value_or(model::InstanceId());
        placed.model_card = *found;
        done(std::move(placed));
    };
    parts_->scope.spawn(
        "placing an instance",
        answer(
            *parts_->cluster,
            parts_->probes,
            id,
            std::move(card),
            std::move(wish),
            std::move(on_answer)
        )
    );
}

void Node::delete_instance(
    model::InstanceId instance_id, std::function<void(Result<api::Deleted>)> on_answer
) {
    auto answer = [](ClusterDriver& cluster,
                     model::InstanceId instance,
                     std::function<void(Result<api::Deleted>)> done) -> asio::awaitable<void> {
        model::CommandId const id(random_uuid());
        model::DeleteInstance command;
        command.instance_id = instance;
        auto const outcome = co_await cluster.command(id, command);
        if (!outcome) {
            done(outcome.error());
            co_return;
        }
        done(api::Deleted{id, instance});
    };
    parts_->scope.spawn(
        "deleting an instance",
        answer(*parts_->cluster, std::move(instance_id), std::move(on_answer))
    );
}

namespace {

// An answer that is an error, told from the event loop as all others are.
class RefusedRequest final : public api::Generation {
public:
    RefusedRequest(Scope& scope, Error error, std::function<void(model::GenerationEvent)> on_event)
        : coroutine_(scope.spawn_owned("a refusal", tell(std::move(error), std::move(on_event)))) {}

private:
    static asio::awaitable<void>
    tell(Error error, std::function<void(model::GenerationEvent)> on_event) {
        on_event(model::GenerationFailed{to_string(error.code()), error.text()});
        co_return;
    }

    std::unique_ptr<Scope::Handle> coroutine_;
};

} // namespace

std::unique_ptr<api::Generation> Node::generate(
    model::GenerationRequest request, std::function<void(model::GenerationEvent)> on_event
) {
    auto& parts = *parts_;
    auto card = find_model(request.model.value());
    if (!card) {
        return std::make_unique<RefusedRequest>(parts.scope, card.error(), std::move(on_event));
    }
    ChatContext const context{
        parts.host,
        *parts.cluster,
        parts.choose,
        parts.probes,
        parts.tasks,
        parts.tasks_changed,
        parts.scope
    };
    auto settings = settings_for(*card, parts.options.instance_settings, models());
    return std::make_unique<ChatRequest>(
        context, std::move(*card), std::move(settings), std::move(request), std::move(on_event)
    );
}

} // namespace exo::node
