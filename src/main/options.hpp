// SPDX-License-Identifier: Apache-2.0
//
// The command line and the environment, as one value. A flag wins over its variable.
#pragma once

#include "base/log.hpp"
#include "base/result.hpp"
#include "node/options.hpp"

#include <optional>

namespace exo::cli {

struct CommandLine {
    node::NodeOptions node;
    log::Level level = log::Level::info;
};

// Empty: help or the version was printed and there is nothing to run.
// Error: invalid_argument, for a flag or a variable that is wrong.
[[nodiscard]] Result<std::optional<CommandLine>> parse_command_line(int argc, char** argv);

} // namespace exo::cli
