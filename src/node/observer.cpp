// SPDX-License-Identifier: Apache-2.0
#include "node/observer.hpp"

#include "node/interfaces.hpp"
#include "system/machine.hpp"

namespace exo::node {

Observer::Observer(Context const& context, NodeOptions const& options, std::string exo_version)
    : context_(context)
    , options_(options)
    , identity_(system::identity()) {
    identity_.exo_version = std::move(exo_version);
}

model::NodeInfo Observer::look() const {
    model::NodeInfo info;
    info.node_id = context_.cluster.self();
    info.identity = identity_;
    system::MemoryOptions memory;
    memory.limit_bytes = options_.memory_limit_bytes;
    memory.used_bytes = context_.worker.used_bytes();
    info.memory = system::memory(memory);
    info.disk = system::disk(options_.paths.default_models);
    info.interfaces = network_interfaces();
    for (auto const& connection : context_.host.connections()) {
        info.links.push_back(
            model::NodeLink{model::NodeId(connection.peer.text()), connection.remote.text()}
        );
    }
    for (auto const& local : context_.catalogue.models()) {
        info.models.push_back(local.card);
    }
    info.api_port = api_port_;
    info.worker = options_.worker;
    return info;
}

void Observer::tell() {
    context_.cluster.set_info(look());
}

asio::awaitable<void> Observer::run() {
    while (true) {
        tell();
        co_await context_.catalogue_changed.wait(interval);
    }
}

} // namespace exo::node
