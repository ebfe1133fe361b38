// SPDX-License-Identifier: Apache-2.0
//
// A cluster of real replicas in a virtual world: network, time, disk, workers and users. The same
// options give the same run, to the last message: a failure is a seed.
#pragma once

#include "sim/checker.hpp"
#include "sim/fake_worker.hpp"
#include "sim/network.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace exo::sim {

struct WorldOptions {
    std::uint64_t seed = 0;
    std::size_t node_count = 3;
    NetworkOptions network;
    Duration load_time = 2s;
    bool verbose = false; // Prints the trace.
};

class World {
public:
    explicit World(WorldOptions options);

    [[nodiscard]] std::size_t size() const { return nodes_.size(); }

    [[nodiscard]] Random& random() { return random_; }

    [[nodiscard]] TimePoint now() const { return queue_.now(); }

    void run_for(Duration time) { queue_.run_until(queue_.now() + time); }

    void at(Duration from_now, std::function<void()> action) {
        queue_.after(from_now, std::move(action));
    }

    // --- Faults ---

    void start(Node node, bool force_master = false);
    void kill(Node node);
    void restart(Node node, Duration pause);

    void set_link(Node a, Node b, bool up) { network_.set_link(a, b, up); }

    void set_one_way(Node from, Node to, bool up) { network_.set_one_way(from, to, up); }

    // Links only where `linked` says so.
    void shape(std::function<bool(Node, Node)> const& linked);
    void isolate(Node node);

    // One end closes the connection; both will dial again.
    void drop_connection(Node a, Node b) { network_.close(a, b); }

    void heal() {
        shape([](Node, Node) { return true; });
    }

    // --- Users ---

    void place(Node at, std::uint32_t min_nodes = 1);
    void remove_any(Node at);

    // --- Looking ---

    [[nodiscard]] bool is_up(Node node) const { return nodes_[node].replica.has_value(); }

    [[nodiscard]] replica::Replica const& at_node(Node node) const { return *nodes_[node].replica; }

    [[nodiscard]] std::vector<Node> up() const;
    // The only leader among nodes that are up and all follow it; none otherwise.
    [[nodiscard]] std::optional<Node> master_of(std::vector<Node> const& nodes) const;
    // Until master_of(nodes): the time it took. Throws Violation after `time_max`.
    Duration wait_for_master(std::vector<Node> const& nodes, Duration time_max);
    void require(bool condition, std::string const& text) const;

    [[nodiscard]] std::uint64_t trace_hash() const { return trace_hash_; }

    [[nodiscard]] std::uint64_t accepted() const { return accepted_; }

    // Q1-Q3 of specs/cluster.md 7: what must hold when faults have stopped. Takes 20 s for Q1 and
    // `rest` more, in which no clock may move.
    void check_quiet(Duration rest = 15s);

private:
    struct Simulated {
        model::NodeId id;
        model::Boot boot = 0;
        std::uint64_t stored_clock = 0; // The disk.
        std::optional<replica::Replica> replica;
        std::optional<FakeWorker> worker;
        TimePoint tick_at = TimePoint::max();
        std::map<model::CommandId, TimePoint> asked;
    };

    void step(Node node, replica::Input const& input);
    void carry_out(Node node, replica::Output const& output);
    void trace(Node node, replica::Output const& output);
    void update_worker(Node node);
    void schedule_tick(Node node);
    void tell_info(Node node);
    void command(Node at, model::Command command, model::CommandId id);
    [[nodiscard]] model::CommandId next_command_id();
    [[nodiscard]] Node number_of(model::NodeId const& id) const;
    [[nodiscard]] std::optional<std::string> why_not_equal() const;
    [[nodiscard]] std::optional<std::string> why_not_settled() const;
    void mix(std::uint64_t value);

    WorldOptions options_;
    EventQueue queue_;
    Random random_;
    std::vector<Simulated> nodes_;
    Network network_;
    Checker checker_;
    std::uint64_t commands_count_ = 0;
    std::uint64_t accepted_ = 0;
    std::uint64_t messages_count_ = 0;
    std::uint64_t trace_hash_ = 0xcbf29ce484222325; // FNV-1a
};

} // namespace exo::sim
