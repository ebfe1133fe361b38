// SPDX-License-Identifier: Apache-2.0
//
// What is known of the ways to cut a model: llama.cpp's own verdicts, where it has been asked, else
// what the model's card lets one expect. Pure.
#pragma once

#include "model/card.hpp"

#include <string>

namespace exo::placement {

// The verdict that the model can be cut so, with its figures; null if there is none. One rank is
// always Sharding::pipeline.
[[nodiscard]] model::ModelCut const*
cut_of(model::ModelCard const& card, model::Sharding sharding, std::uint32_t ranks);

// Why the model cannot be cut so; empty if it can, as far as is known. Of a pipeline the next
// smaller number of ranks that was tried speaks for one that was not: its stages compute the same
// graphs. In tensor mode each number cuts heads in another way, so only what was tried is done.
// REQUIRES: ranks > 0.
[[nodiscard]] std::string
why_not_cut(model::ModelCard const& card, model::Sharding sharding, std::uint32_t ranks);

} // namespace exo::placement
