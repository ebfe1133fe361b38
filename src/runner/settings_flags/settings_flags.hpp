// SPDX-License-Identifier: Apache-2.0
//
// The flags of `exo` and `exo runner` that say how the engine of an instance is to run.
#pragma once

#include "model/settings.hpp"

namespace CLI {
class App;
}

namespace exo::runner {

constexpr std::uint32_t threads_most = 512; // GGML_MAX_N_THREADS

// All but the context's length and the draft model, which the two name differently. `settings`
// must outlive the parse of `app`, which throws CLI::ValidationError, naming the flag.
void add_settings_flags(CLI::App& app, model::InstanceSettings& settings);

} // namespace exo::runner
