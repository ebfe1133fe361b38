// SPDX-License-Identifier: Apache-2.0
//
// What belongs to the process as a whole: its environment, signals, and ggml's way to die. These
// are the only globals of the engine's side, because the operating system and ggml want them so.
#pragma once

#include <string>

namespace exo::runner {

// Variables that would change graphs or kernels are removed (ranks must run the same program), an
// abort starts no debugger, and Ctrl-C is left to the node. Call first.
void prepare_process();

// Called when ggml aborts, with its reason; the process ends after it. It may only do what is safe
// in the middle of anything: write to a descriptor.
using LastWords = void (*)(std::string const& reason);
void set_last_words(LastWords last_words);

} // namespace exo::runner
