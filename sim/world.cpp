// SPDX-License-Identifier: Apache-2.0
#include "sim/world.hpp"

#include "base/overloaded.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace exo::sim {
namespace {

constexpr Duration info_interval = 2s;
constexpr Duration answer_max = 10s + 100ms; // C1, and a late tick.

// One message in this many goes through its bytes on the way; the others are passed as values.
constexpr std::uint64_t encoded_each = 16;

constexpr std::uint64_t card_count = 5; // On every node's disk.

model::ModelCard make_card(std::uint64_t number) {
    model::ModelCard card;
    card.model_id = model::ModelId(fmt::format("model-{}", number % card_count));
    card.storage_size = {std::uint64_t{100} << 20};
    card.n_layers = 16;
    card.hidden_size = 512;
    card.num_attention_heads = 8;
    card.num_key_value_heads = 8;
    card.context_length = 2048;
    card.vocabulary_size = 1000;
    card.kv_bytes_per_token = 1024;
    card.supports_tensor = true;
    return card;
}

model::NodeInfo make_info(std::uint64_t ram_mib) {
    model::NodeInfo info;
    info.memory.ram_total = {std::uint64_t{16} << 30};
    info.memory.ram_available = {ram_mib << 20};
    for (std::uint64_t number = 0; number < card_count; ++number) {
        info.models.push_back(make_card(number));
    }
    return info;
}
} // namespace

World::World(WorldOptions options)
    : options_(options)
    , random_(options.seed)
    , nodes_(options.node_count)
    , network_(
          queue_,
          random_.next(),
          options.node_count,
          options.network,
          {
              .on_connected =
                  [this](Node at, Node peer) { step(at, replica::PeerConnected{nodes_[peer].id}); },
              .on_disconnected = [this](
                                     Node at, Node peer
                                 ) { step(at, replica::PeerDisconnected{nodes_[peer].id}); },
              .on_message =
                  [this](Node at, Node from, replica::Message const& message) {
                      step(at, replica::MessageReceived{nodes_[from].id, message, false, {}});
                  },
              .on_gossip =
                  [this](Node at, Node author, replica::Gossip const& gossip) {
                      step(
                          at,
                          replica::MessageReceived{
                              nodes_[author].id, gossip.message, true, gossip.to
                          }
                      );
                  },
          }
      ) {
    // Ids in an order that is not the nodes' numbers.
    for (Node node = 0; node < nodes_.size(); ++node) {
        nodes_[node].id = model::NodeId(fmt::format("{}-{}", random_.below(1000), node));
    }
}

// --- Faults ---

void World::start(Node node, bool force_master) {
    auto& simulated = nodes_[node];
    require(!simulated.replica, "started twice");
    simulated.boot = random_.next();
    simulated.replica.emplace(
        replica::Config{
            .self = simulated.id,
            .boot = simulated.boot,
            .stored_clock = simulated.stored_clock,
            .force_master = force_master,
            .seed = random_.next(),
        },
        queue_.now()
    );
    simulated.worker.emplace(options_.load_time);
    simulated.tick_at = TimePoint::max();
    simulated.asked.clear();
    step(node, replica::Started{});
    tell_info(node);
    network_.start(node);
}

void World::kill(Node node) {
    auto& simulated = nodes_[node];
    require(simulated.replica.has_value(), "killed twice");
    if (options_.verbose) {
        fmt::print("{:8} {} killed\n", queue_.now().time_since_epoch() / 1ms, node);
    }
    simulated.replica.reset();
    simulated.worker.reset();
    network_.kill(node);
}

void World::restart(Node node, Duration pause) {
    kill(node);
    queue_.after(pause, [this, node] {
        if (!is_up(node)) {
            start(node);
        }
    });
}

void World::shape(std::function<bool(Node, Node)> const& linked) {
    for (Node a = 0; a < size(); ++a) {
        for (Node b = a + 1; b < size(); ++b) {
            set_link(a, b, linked(a, b));
        }
    }
}

void World::isolate(Node node) {
    for (Node peer = 0; peer < size(); ++peer) {
        if (peer != node) {
            set_link(node, peer, false);
        }
    }
}

// --- Users ---

model::CommandId World::next_command_id() {
    return model::CommandId(fmt::format("command-{}", ++commands_count_));
}

void World::command(Node at, model::Command command, model::CommandId id) {
    nodes_[at].asked.emplace(id, queue_.now());
    step(at, replica::CommandRequested{id, std::move(command)});
    auto const boot = nodes_[at].boot;
    queue_.after(answer_max, [this, at, boot, id] {
        bool const same_life = is_up(at) && nodes_[at].boot == boot;
        require(!same_life || !nodes_[at].asked.contains(id), "C1: a command without an answer");
    });
}

void World::place(Node at, std::uint32_t min_nodes) {
    auto const id = next_command_id();
    model::PlaceInstance place{
        .wish_id = model::WishId(id.value()),
        .model_card = make_card(commands_count_),
        .sharding = model::Sharding::pipeline,
        .min_nodes = min_nodes,
    };
    command(at, std::move(place), id);
}

void World::remove_any(Node at) {
    auto const& instances = at_node(at).state().instances;
    if (!instances.empty()) {
        auto const chosen = std::next(
            instances.begin(), static_cast<std::ptrdiff_t>(random_.below(instances.size()))
        );
        command(at, model::DeleteInstance{chosen->first}, next_command_id());
    }
}

void World::tell_info(Node node) {
    step(node, replica::ObservationChanged{make_info(8000 + random_.below(200))});
    auto const boot = nodes_[node].boot;
    queue_.after(info_interval, [this, node, boot] {
        if (is_up(node) && nodes_[node].boot == boot) {
            tell_info(node);
        }
    });
}

// --- One step of one node ---

void World::step(Node node, replica::Input const& input) {
    auto& simulated = nodes_[node];
    if (!simulated.replica) {
        return;
    }
    auto const outputs = simulated.replica->step(input, queue_.now());
    for (auto const& output : outputs) {
        trace(node, output);
        carry_out(node, output);
    }
    try {
        checker_.after_step(simulated.boot, *simulated.replica, outputs);
    } catch (Violation const& violation) {
        require(false, violation.what());
    }
    schedule_tick(node);
}

void World::carry_out(Node node, replica::Output const& output) {
    auto& simulated = nodes_[node];
    std::visit(
        Overloaded{
            [&](replica::StoreClock const& out) {
                checker_.on_store_clock(simulated.id, out.clock);
                simulated.stored_clock = out.clock;
            },
            [&](replica::Send const& out) {
                if (++messages_count_ % encoded_each == 0) {
                    auto const decoded = replica::decode(replica::encode(out.message));
                    require(decoded && *decoded == out.message, "a message changed on its way");
                }
                network_.send(node, number_of(out.to), out.message);
            },
            [&](replica::Publish const& out) {
                if (++messages_count_ % encoded_each == 0) {
                    auto const decoded = replica::decode_gossip(replica::encode_gossip(out.gossip));
                    require(
                        decoded && decoded->message == out.gossip.message,
                        "gossip changed on its way"
                    );
                }
                network_.publish(node, out.gossip);
            },
            [&](replica::CommandAnswered const& out) {
                require(simulated.asked.erase(out.command_id) == 1, "C1: answered twice");
                accepted_ += out.outcome.has_value();
            },
            [&](replica::PeerLost const& out) {
                auto const peer = number_of(out.node_id);
                queue_.after(Duration{0}, [this, node, peer] { network_.close(node, peer); });
            },
            [&](replica::StateChanged const&) {
                queue_.after(Duration{0}, [this, node] { update_worker(node); });
            },
            [&](replica::CopiedKey const&) { require(false, "E13: no key was copied"); },
            [](auto const&) {},
        },
        output
    );
}

void World::update_worker(Node node) {
    auto& simulated = nodes_[node];
    if (!simulated.replica) {
        return;
    }
    if (simulated.worker->update(*simulated.replica, queue_.now())) {
        step(node, simulated.worker->report());
    }
    if (auto const next = simulated.worker->deadline()) {
        queue_.at(std::max(*next, queue_.now() + 1ms), [this, node] { update_worker(node); });
    }
}

void World::schedule_tick(Node node) {
    auto& simulated = nodes_[node];
    auto const due = std::max(simulated.replica->deadline(), queue_.now());
    if (due >= simulated.tick_at) {
        return;
    }
    simulated.tick_at = due;
    auto const late = Duration(random_.below(2'000'000));
    queue_.at(due + late, [this, node, due, boot = simulated.boot] {
        auto& later = nodes_[node];
        if (later.boot == boot && later.tick_at == due) {
            later.tick_at = TimePoint::max();
            step(node, replica::Tick{});
        }
    });
}

// --- The trace ---

void World::mix(std::uint64_t value) {
    trace_hash_ = (trace_hash_ ^ value) * 0x100000001b3;
}

void World::trace(Node node, replica::Output const& output) {
    mix(static_cast<std::uint64_t>(queue_.now().time_since_epoch().count()));
    mix(node);
    mix(output.index());
    std::string text;
    std::visit(
        Overloaded{
            [&](replica::StoreClock const& out) { text = fmt::format("clock {}", out.clock); },
            [&](replica::EventAppended const& out) {
                text = fmt::format("event {} {}", out.record.position.index, out.record.event);
            },
            [&](replica::CommandAnswered const& out) {
                text = fmt::format(
                    "answer {} {}",
                    out.command_id.value(),
                    out.outcome ? "accepted" : out.outcome.error().text()
                );
            },
            [&](replica::MasterChanged const& out) {
                text = out.master ? fmt::format("master {}", number_of(*out.master)) : "no master";
                auto const elected = *at_node(node).election().elected;
                text += fmt::format(
                    ", elected {} clock {} seniority {} commands {}",
                    number_of(elected.node_id),
                    elected.clock,
                    elected.seniority,
                    elected.commands_seen
                );
            },
            [&](replica::PeerLost const& out) {
                text = fmt::format("lost {}", number_of(out.node_id));
            },
            [&](replica::SnapshotInstalled const& out) {
                text = fmt::format("snapshot {}", out.position.index);
            },
            [&](replica::Send const& out) { mix(out.message.index()); },
            [&](replica::Publish const& out) { mix(out.gossip.message.index()); },
            [](auto const&) {},
        },
        output
    );
    for (char const c : text) {
        mix(static_cast<unsigned char>(c));
    }
    if (options_.verbose && !text.empty()) {
        fmt::print(
            "{:8} {} {}\n", queue_.now().time_since_epoch() / 1ms, node, text.substr(0, 160)
        );
    }
}

// --- Looking ---

Node World::number_of(model::NodeId const& id) const {
    auto const found = std::ranges::find(nodes_, id, &Simulated::id);
    EXO_ASSERT(found != nodes_.end());
    return static_cast<Node>(found - nodes_.begin());
}

void World::require(bool condition, std::string const& text) const {
    if (!condition) {
        throw Violation(fmt::format(
            "seed {}, {} nodes, at {} ms: {}",
            options_.seed,
            nodes_.size(),
            queue_.now().time_since_epoch() / 1ms,
            text
        ));
    }
}

std::vector<Node> World::up() const {
    std::vector<Node> result;
    for (Node node = 0; node < size(); ++node) {
        if (is_up(node)) {
            result.push_back(node);
        }
    }
    return result;
}

std::optional<Node> World::master_of(std::vector<Node> const& nodes) const {
    std::optional<model::NodeId> master;
    for (Node const node : nodes) {
        auto const says = at_node(node).master();
        if (!says || (master && *says != *master)) {
            return std::nullopt;
        }
        master = says;
    }
    for (Node const node : nodes) {
        if (nodes_[node].id == master && at_node(node).leading()) {
            return node;
        }
    }
    return std::nullopt;
}

Duration World::wait_for_master(std::vector<Node> const& nodes, Duration time_max) {
    auto const start = now();
    while (!master_of(nodes)) {
        require(
            now() < start + time_max, fmt::format("P5: no master within {} ms", time_max / 1ms)
        );
        run_for(50ms);
    }
    return now() - start;
}

std::optional<std::string> World::why_not_equal() const {
    auto const nodes = up();
    auto const master = master_of(nodes);
    if (!master) {
        return "not one leader";
    }
    auto const& leader = at_node(*master);
    for (Node const node : nodes) {
        auto const& replica = at_node(node);
        if (replica.session() != leader.session() || replica.position() != leader.position()) {
            return fmt::format(
                "node {} is at {} and the master, {}, at {}",
                node,
                replica.position().index,
                *master,
                leader.position().index
            );
        }
        if (replica.chain() != leader.chain() || replica.state() != leader.state()) {
            return fmt::format("node {} has another State", node);
        }
        if (replica.election().elected != leader.election().elected) {
            return fmt::format("node {} has elected another ballot", node);
        }
    }
    return std::nullopt;
}

std::optional<std::string> World::why_not_settled() const {
    auto const nodes = up();
    auto const& state = at_node(nodes.front()).state();
    if (state.members.size() != nodes.size()) {
        return fmt::format("Q2: {} members, {} nodes", state.members.size(), nodes.size());
    }
    std::size_t runner_count = 0;
    for (Node const node : nodes) {
        auto const& simulated = nodes_[node];
        auto const member = state.members.find(simulated.id);
        if (member == state.members.end() || member->second.boot != simulated.boot ||
            !member->second.settled || !simulated.replica->settled()) {
            return fmt::format("Q2: node {} is not settled", node);
        }
        for (auto const& [runner_id, runner] : simulated.worker->runners()) {
            ++runner_count;
            auto const wanted = state.instances.find(model::instance_id(runner.instance));
            if (wanted == state.instances.end() || wanted->second != runner.instance) {
                return fmt::format("Q3: an orphan runner {} on node {}", runner_id.value(), node);
            }
            auto const status = state.runners.find(runner_id);
            if (status == state.runners.end() || !model::serves(status->second)) {
                return fmt::format("Q3: State does not know that a runner on {} is ready", node);
            }
        }
    }
    for (auto const& [instance_id, instance] : state.instances) {
        runner_count -= model::shard_assignments(instance).runner_to_shard.size();
        if (!state.wishes.contains(model::wish_id(instance))) {
            return "Q2: an instance that nobody wishes";
        }
    }
    return runner_count == 0 ? std::nullopt : std::optional<std::string>("Q3: a gap of runners");
}

void World::check_quiet(Duration rest) {
    auto const equal_within = [this](Duration time) {
        auto const end = now() + time;
        auto why = why_not_equal();
        while (why && now() < end) {
            run_for(50ms);
            why = why_not_equal();
        }
        require(!why, "Q1: " + why.value_or(""));
    };
    run_for(20s);
    equal_within(1s); // An event may be on its way.
    std::vector<std::uint64_t> clocks;
    for (auto const& simulated : nodes_) {
        clocks.push_back(simulated.stored_clock);
    }
    run_for(rest);
    equal_within(1s);
    for (Node node = 0; node < size(); ++node) {
        require(nodes_[node].stored_clock == clocks[node], "Q1: a clock moved at rest");
    }
    auto const why = why_not_settled();
    require(!why, why.value_or(""));
}

} // namespace exo::sim
