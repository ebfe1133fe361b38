// SPDX-License-Identifier: Apache-2.0
//
// "Can this model be run so, and what does each rank take?" Asked before a placement, of a node
// that has the model's file: this one, else another over a direct stream. The verdicts go into the
// card, and with it into the placement (core/placement), which is pure.
#pragma once

#include "model/node_info.hpp"
#include "net/host/host.hpp"
#include "node/catalogue.hpp"
#include "node/probe/local_probe.hpp"

namespace exo::node {

// The ways in which a model may be placed on so many nodes.
[[nodiscard]] std::vector<Way>
ways_to_try(model::ModelCard const& card, model::Sharding sharding, std::size_t nodes);

// The nodes that say that the model is on their disk, `self` first.
[[nodiscard]] std::vector<model::NodeId> nodes_with(
    model::Observations const& observations, model::NodeId const& self, model::ModelId const& model
);

class ProbeService {
public:
    // For all verdicts on one model, from another node.
    static constexpr Duration answer_limit = 60s;
    // Nodes that are asked until one answers: each may take its time.
    static constexpr std::size_t nodes_asked_max = 3;

    // Registers with the host. Both outlive the service.
    ProbeService(net::Host& host, Catalogue const& catalogue, LocalProbeOptions options);

    // The card with its verdicts. When nobody can be asked, a pipeline is placed without them: its
    // ranks find out by themselves before they read any weights. Error: unavailable, of a tensor
    // placement, which may not be tried on live nodes first.
    asio::awaitable<Result<model::ModelCard>>
    judge(model::ModelCard card, model::Sharding sharding, std::vector<model::NodeId> holders);

private:
    asio::awaitable<Result<std::vector<model::ModelCut>>>
    ask_here(model::ModelId model, std::vector<Way> ways);
    asio::awaitable<Result<std::vector<model::ModelCut>>>
    ask_there(model::NodeId node, model::ModelId model, std::vector<Way> ways);
    asio::awaitable<void> serve(std::unique_ptr<net::Stream> stream);

    net::Host& host_;
    Catalogue const& catalogue_;
    LocalProbe local_;
};

} // namespace exo::node
