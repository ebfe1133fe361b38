// SPDX-License-Identifier: Apache-2.0
//
// The API node's side of a request: finds an instance (placing the model when there is none, and
// waiting while one loads), opens the task at rank 0's node and passes its events on. A lost
// connection is resumed while rank 0 may still be alive; a request of which nothing has reached the
// client may try one other instance, once (specs/cluster.md T1-T4).
//
// One coroutine a request, owned by the Scope given; dropping the ChatRequest cancels it.
#pragma once

#include "api/backend.hpp"
#include "node/cluster/driver.hpp"
#include "node/probe/probe_service.hpp"
#include "node/requests/choose_service.hpp"
#include "node/requests/generate_service.hpp"
#include "node/scope.hpp"

#include <functional>
#include <memory>

namespace exo::node {

// What requests need of their node. All outlive the requests.
struct ChatContext {
    net::Host& host;
    ClusterDriver& cluster;
    ChooseService& choose;
    ProbeService& probes;
    TaskTable& tasks; // Of this node: rank 0 may be here.
    Notify& tasks_changed;
    Scope& scope;
};

class ChatRequest final : public api::Generation {
public:
    using OnEvent = std::function<void(model::GenerationEvent)>;

    // A model that is still loading after so long will not come: 100 GB from a slow disk takes
    // ten minutes.
    static constexpr Duration ready_limit = 20min;

    // `settings`: of an instance, if the model has none yet.
    ChatRequest(
        ChatContext const& context,
        model::ModelCard card,
        model::InstanceSettings settings,
        model::GenerationRequest request,
        OnEvent on_event
    );
    ~ChatRequest() override;

private:
    class Run;

    std::shared_ptr<Run> run_; // Shared with its coroutine, which may unwind after us.
    std::unique_ptr<Scope::Handle> coroutine_;
};

} // namespace exo::node
