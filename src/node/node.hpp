// SPDX-License-Identifier: Apache-2.0
//
// One exo node: the network, its part in the cluster, the runners that it was given, and the API in
// front of them. This is wiring: each part says in its own header what it does.
//
// One thread: all of it runs on the executor given.
#pragma once

#include "api/backend.hpp"
#include "node/options.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <memory>
#include <string>

namespace exo::node {

class Node final : public api::Backend {
public:
    // Reads the identity and the network's secret, ends what an earlier boot left running, looks at
    // the models on disk.
    // Errors: corrupt or io, naming the file; invalid_argument (a bootstrap peer).
    [[nodiscard]] static Result<std::unique_ptr<Node>>
    create(boost::asio::any_io_executor executor, NodeOptions options, std::string exo_version);
    ~Node() override;

    // Binds the API and the network, then begins. Error: io (a port is taken), with the remedy.
    [[nodiscard]] Result<void> start();

    // Ends streams, runners and connections, in this order, each within its limit.
    boost::asio::awaitable<void> stop();

    [[nodiscard]] model::NodeId const& id() const;
    [[nodiscard]] std::string api_url() const; // Empty with --no-api.

    // api::Backend
    [[nodiscard]] api::ClusterView view() const override;
    [[nodiscard]] nlohmann::json network_diagnosis() const override;
    [[nodiscard]] std::vector<model::ModelCard> models() const override;
    [[nodiscard]] Result<model::ModelCard> find_model(std::string const& model_id) const override;
    [[nodiscard]] model::InstanceSettings default_settings(std::string const& model_id
    ) const override;
    void place_instance(
        api::PlaceRequest request, std::function<void(Result<api::Placed>)> on_answer
    ) override;
    void delete_instance(
        model::InstanceId instance_id, std::function<void(Result<api::Deleted>)> on_answer
    ) override;
    [[nodiscard]] std::unique_ptr<api::Generation> generate(
        model::GenerationRequest request, std::function<void(model::GenerationEvent)> on_event
    ) override;

private:
    struct Parts;
    explicit Node(std::unique_ptr<Parts> parts);

    std::unique_ptr<Parts> parts_;
};

} // namespace exo::node
