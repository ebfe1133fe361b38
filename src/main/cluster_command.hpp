// SPDX-License-Identifier: Apache-2.0
//
// `exo cluster ...`: the words and flags of what node/network/membership.hpp does. Works on the
// files of the node, whether it runs or not; a node that runs follows them.
//
// A token goes to standard output and everything else to standard error, so that
// `exo cluster token | ssh other exo cluster join` is all that it takes.
#pragma once

namespace exo::cli {

// argv[0] is "cluster". Returns the exit code: 0; 1, it could not be done; 2, a wrong flag or
// token.
[[nodiscard]] int run_cluster_command(int argc, char** argv);

} // namespace exo::cli
