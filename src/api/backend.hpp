// SPDX-License-Identifier: Apache-2.0
//
// What the HTTP API needs of the node behind it. Implemented by node::Node, and by a script in the
// API's own tests. All of it runs on the network thread; callbacks are never called from within the
// call that takes them.
#pragma once

#include "base/result.hpp"
#include "model/card.hpp"
#include "model/command.hpp"
#include "model/generation.hpp"
#include "model/node_info.hpp"
#include "model/state.hpp"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace exo::api {

struct PlaceRequest {
    std::string model_id; // As the user wrote it.
    model::Sharding sharding = model::Sharding::pipeline;
    model::InstanceMeta instance_meta = model::InstanceMeta::mlx_ring;
    std::uint32_t min_nodes = 1;
    model::InstanceSettings settings; // Valid; a draft model is named as the user wrote it.
};

struct Placed {
    model::CommandId command_id;
    model::InstanceId instance_id;
    model::ModelCard model_card;
};

struct Deleted {
    model::CommandId command_id;
    model::InstanceId instance_id;
};

// What is known of the cluster now: the logged state and what nodes say of themselves.
struct ClusterView {
    model::NodeId node_id;
    std::optional<model::NodeId> master_node_id; // Empty during an election without one.
    model::State const* state = nullptr;         // Valid until control returns to the event loop.
    model::Observations const* observations = nullptr;
};

// A running generation. Destroying it cancels the request at rank 0 within one step.
class Generation {
public:
    Generation() = default;
    Generation(Generation const&) = delete;
    Generation& operator=(Generation const&) = delete;
    virtual ~Generation() = default;
};

class Backend {
public:
    virtual ~Backend() = default;

    [[nodiscard]] virtual ClusterView view() const = 0;

    // What this node sees of its network, and what it makes of it: net/diagnosis/document.hpp has
    // the names.
    [[nodiscard]] virtual nlohmann::json network_diagnosis() const = 0;

    // Every model that some node can run: on a disk of the cluster. Sorted by id.
    [[nodiscard]] virtual std::vector<model::ModelCard> models() const = 0;

    // The card that `model_id` names: exact id, else a unique short name ("smollm2-135m-instruct"
    // for "owner/smollm2-135m-instruct"), without regard to case. Error: not_found, with the ids
    // that come near.
    [[nodiscard]] virtual Result<model::ModelCard> find_model(std::string const& model_id
    ) const = 0;

    // What this node wants for an instance of the model, where a request does not say.
    [[nodiscard]] virtual model::InstanceSettings default_settings(std::string const& model_id
    ) const = 0;

    // Errors: not_found (model, draft model), conflict (refused, with the reason), unavailable (no
    // master).
    virtual void
    place_instance(PlaceRequest request, std::function<void(Result<Placed>)> on_answer) = 0;

    // Errors: not_found, unavailable.
    virtual void delete_instance(
        model::InstanceId instance_id, std::function<void(Result<Deleted>)> on_answer
    ) = 0;

    // Starts an answer. Places the model when it has no instance, and waits while one loads; events
    // then come in order and end with exactly one GenerationFinished or GenerationFailed (also for
    // an unknown model or a refused placement).
    [[nodiscard]] virtual std::unique_ptr<Generation> generate(
        model::GenerationRequest request, std::function<void(model::GenerationEvent)> on_event
    ) = 0;
};

} // namespace exo::api
