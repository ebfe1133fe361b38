// SPDX-License-Identifier: Apache-2.0
//
// What a runner is doing. Tagged in JSON: {"RunnerLoading": {"layersLoaded": 3, ...}}.
#pragma once

#include "model/ids.hpp"

#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace exo::model {

struct RunnerIdle {
    bool operator==(RunnerIdle const&) const = default;
};

struct RunnerConnecting {
    bool operator==(RunnerConnecting const&) const = default;
};

struct RunnerConnected {
    bool operator==(RunnerConnected const&) const = default;
};

struct RunnerLoading {
    std::uint32_t layers_loaded = 0;
    std::uint32_t total_layers = 0;
    bool operator==(RunnerLoading const&) const = default;
};

struct RunnerLoaded {
    bool operator==(RunnerLoaded const&) const = default;
};

struct RunnerWarmingUp {
    bool operator==(RunnerWarmingUp const&) const = default;
};

struct RunnerReady {
    bool operator==(RunnerReady const&) const = default;
};

struct RunnerRunning {
    bool operator==(RunnerRunning const&) const = default;
};

struct RunnerShuttingDown {
    bool operator==(RunnerShuttingDown const&) const = default;
};

struct RunnerShutdown {
    bool operator==(RunnerShutdown const&) const = default;
};

struct RunnerFailed {
    std::string error_message;
    std::vector<std::string> diagnostics; // The last lines that the runner wrote to stderr.
    bool operator==(RunnerFailed const&) const = default;
};

using RunnerStatus = std::variant<
    RunnerIdle,
    RunnerConnecting,
    RunnerConnected,
    RunnerLoading,
    RunnerLoaded,
    RunnerWarmingUp,
    RunnerReady,
    RunnerRunning,
    RunnerShuttingDown,
    RunnerShutdown,
    RunnerFailed>;

// Ready or Running: takes requests.
[[nodiscard]] bool serves(RunnerStatus const& status);

} // namespace exo::model
