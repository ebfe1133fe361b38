// SPDX-License-Identifier: Apache-2.0
//
// Runs the cluster protocol (core/replica) on the real network: carries its messages by direct
// streams and gossip, keeps its timer and its clock on disk, and decides nothing.
//
// One thread; made before host.start().
#pragma once

#include "core/replica/replica.hpp"
#include "net/host/host.hpp"
#include "node/scope.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>

namespace exo::node {

class ClusterDriver {
public:
    // A request goes to no instance with a node that missed four beats.
    static constexpr Duration silent_limit = 2s;

    struct Options {
        model::NodeId self;
        model::Boot boot = 0;
        bool force_master = false;
        std::filesystem::path clock_file;
    };

    // Reads the clock. Error: corrupt or io, naming the file.
    [[nodiscard]] static Result<std::unique_ptr<ClusterDriver>>
    create(asio::any_io_executor executor, Options options);

    ClusterDriver(ClusterDriver const&) = delete;
    ClusterDriver& operator=(ClusterDriver const&) = delete;
    ~ClusterDriver();

    // The callbacks to give to the host, and the protocols to register with it.
    [[nodiscard]] net::HostCallbacks host_callbacks();
    void attach(net::Host& host);
    [[nodiscard]] static std::vector<std::string> topics();

    // Begins the first campaign. After host.start().
    void start();
    asio::awaitable<void> stop();

    [[nodiscard]] model::NodeId const& self() const;
    [[nodiscard]] model::State const& state() const;
    [[nodiscard]] model::Observations const& observations() const;
    [[nodiscard]] std::optional<model::NodeId> master() const;
    // The worker may act on State (specs/cluster.md W1).
    [[nodiscard]] bool settled() const;
    // When the node was last heard; empty: not connected.
    [[nodiscard]] std::optional<TimePoint> heard(model::NodeId const& node) const;
    // Open tasks of each instance, as State knows them.
    [[nodiscard]] std::map<model::InstanceId, std::uint32_t> loads() const;
    // Nodes of State that no message has come from for silent_limit.
    [[nodiscard]] std::set<model::NodeId> silent() const;

    // Notified after each change of State, observations, master or settled().
    [[nodiscard]] Notify& changed();

    // Asks the master, whoever it is, and completes with its answer (specs/cluster.md C1).
    asio::awaitable<Result<model::CommandOutcome>>
    command(model::CommandId id, model::Command command);

    // What the local worker runs, all of it each time.
    void set_levels(std::vector<model::ReportedRunner> runners, std::vector<model::Task> tasks);
    void set_info(model::NodeInfo info);

private:
    ClusterDriver(asio::any_io_executor executor, Options options, std::uint64_t stored_clock);

    class Impl;
    std::shared_ptr<Impl> impl_; // Shared with its timer's handler.
};

} // namespace exo::node
