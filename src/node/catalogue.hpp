// SPDX-License-Identifier: Apache-2.0
//
// The models on this node's disks, looked at again and again in the background.
//
// The network thread owns it; the disk is read on a thread of its own.
#pragma once

#include "node/scope.hpp"
#include "storage/files/paths.hpp"
#include "storage/models/model_library.hpp"

#include <boost/asio/thread_pool.hpp>

#include <memory>

namespace exo::node {

class Catalogue {
public:
    // A new file should be offered soon after it was copied; a scan of known files costs a stat
    // each.
    static constexpr Duration scan_interval = 5s;

    // Scans once before it returns, so that a node knows its models from the start.
    explicit Catalogue(storage::Paths const& paths);

    // Scans on, for ever. `changed` is notified when the models differ.
    asio::awaitable<void> run(Notify& changed);

    [[nodiscard]] std::vector<storage::LocalModel> const& models() const { return models_; }

    [[nodiscard]] storage::LocalModel const* find(model::ModelId const& id) const;

private:
    // Of the disk thread while a scan runs; shared because a scan may outlive the node's stop.
    std::shared_ptr<storage::ModelLibrary> library_;
    std::vector<storage::LocalModel> models_;
    asio::thread_pool disk_{1};
};

} // namespace exo::node
