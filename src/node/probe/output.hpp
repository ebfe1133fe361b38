// SPDX-License-Identifier: Apache-2.0
//
// What `exo runner --probe` writes, as a verdict. Pure.
#pragma once

#include "base/result.hpp"
#include "model/card.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace exo::node {

// One way to run a model. One rank is Sharding::pipeline.
struct Way {
    model::Sharding sharding = model::Sharding::pipeline;
    std::uint32_t ranks = 1;

    bool operator==(Way const&) const = default;
};

// The line that the probe writes, so far as a placement needs it.
struct ProbeOutput {
    bool ok = false;
    std::string reason;
    std::uint64_t layer_bytes = 0;
    std::vector<model::RankNeed> ranks;
};

// Reasons are shown to people and travel with cards; what llama.cpp says may be longer.
constexpr std::size_t refusal_bytes_max = 500;

// The verdict is the last line that looks like one: libraries may write anything before it. Error:
// protocol, if there is none, or its figures are not those of every rank.
[[nodiscard]] Result<model::ModelCut> read_probe_output(std::string_view output, Way const& way);

} // namespace exo::node
