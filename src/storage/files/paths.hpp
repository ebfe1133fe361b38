// SPDX-License-Identifier: Apache-2.0
//
// Where exo keeps its files. With EXO_HOME everything of one node lies under that folder; else the
// XDG folders of the user are used (Linux), or ~/.exo (macOS).
#pragma once

#include "base/result.hpp"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace exo::storage {

struct Paths {
    std::filesystem::path config;         // node_id.keypair, cluster.token
    std::filesystem::path data;           // The election's clock, the port for other nodes
    std::filesystem::path cache;          // Logs, the lock of this node
    std::filesystem::path default_models; // Where models are downloaded to.
    std::vector<std::filesystem::path>
        models; // Searched in this order; starts with default_models.
    std::vector<std::filesystem::path> models_read_only; // Searched after those, never written to.

    [[nodiscard]] std::filesystem::path keypair() const { return config / "node_id.keypair"; }

    // The private cluster that this node is in; not there: none.
    [[nodiscard]] std::filesystem::path cluster_token() const { return config / "cluster.token"; }

    [[nodiscard]] std::filesystem::path libp2p_port() const { return data / "libp2p_port"; }

    [[nodiscard]] std::filesystem::path log_file() const { return cache / "exo_log" / "exo.log"; }

    // All of `models`, then all of `models_read_only`.
    [[nodiscard]] std::vector<std::filesystem::path> all_models() const;

    bool operator==(Paths const&) const = default;
};

// An environment variable; an empty one counts as not set.
using Environment = std::function<std::optional<std::string>(std::string const& name)>;

// EXO_HOME (a relative one is below HOME), XDG_CONFIG_HOME, XDG_DATA_HOME, XDG_CACHE_HOME,
// EXO_DEFAULT_MODELS_DIR, and the colon lists EXO_MODELS_DIRS and EXO_MODELS_READ_ONLY_DIRS.
// Error: invalid_argument when neither EXO_HOME nor HOME says where to start.
[[nodiscard]] Result<Paths> paths_from(Environment const& environment);

// The same for this process.
[[nodiscard]] Result<Paths> paths_of_process();

} // namespace exo::storage
