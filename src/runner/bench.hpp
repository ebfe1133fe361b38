// SPDX-License-Identifier: Apache-2.0
//
// Measures one instance whose ranks all run on this machine: real runners, real group, real step
// plans.
#pragma once

#include "base/result.hpp"
#include "engine/engine.hpp"
#include "ipc/messages.hpp"
#include "runner/local_ranks.hpp"

namespace exo::runner {

// Rank 0 prints the numbers as one line of JSON to standard output. `start` is what every rank
// gets; its rank is set here. `places` as for LocalRanks.
[[nodiscard]] Result<void>
bench(ipc::Start start, engine::MeasureOptions const& measure, std::vector<Place> const& places);

} // namespace exo::runner
