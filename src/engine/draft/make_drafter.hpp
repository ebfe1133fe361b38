// SPDX-License-Identifier: Apache-2.0
//
// The drafter that an instance's settings ask for.
#pragma once

#include "base/result.hpp"
#include "engine/draft/drafter.hpp"
#include "model/settings.hpp"

#include <llama.h>

#include <memory>
#include <string>

namespace exo::engine {

struct DrafterOptions {
    model::InstanceSettings settings;
    std::vector<std::string> draft_paths; // A draft model's files; none: no draft model.
    std::uint32_t context_length = 0;
    std::uint32_t threads = 1;
};

// Null if they ask for none. With both a draft model and prompt lookup, the lookup is asked first:
// it costs nothing, and where it finds something it is mostly right. Errors: DraftModel::load's.
[[nodiscard]] Result<std::unique_ptr<Drafter>>
make_drafter(DrafterOptions const& options, llama_vocab const* target);

} // namespace exo::engine
