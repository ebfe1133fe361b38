// SPDX-License-Identifier: Apache-2.0
//
// The child process `exo runner`: one rank of one instance (--ipc-fd), the probe of a model
// (--probe), or a measurement on this machine (--bench).
#pragma once

namespace exo::runner {

// `argc` and `argv` are those of main without the program's own name: argv[0] is "runner". Returns
// the exit code. Must be called before other threads start: it sets llama.cpp's log and abort
// callbacks, which are per process.
[[nodiscard]] int run(int argc, char** argv);

} // namespace exo::runner
