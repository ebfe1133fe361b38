// SPDX-License-Identifier: Apache-2.0
#include "runner/bench.hpp"

#include "base/entropy.hpp"

#include <fmt/core.h>

namespace exo::runner {
namespace {

// Reading tens of GB from a disk takes its time.
constexpr Duration ready_limit = 10min;

} // namespace

Result<void>
bench(ipc::Start start, engine::MeasureOptions const& measure, std::vector<Place> const& places) {
    start.instance_id = model::InstanceId(random_uuid());
    // The context holds what is measured, and no more than that is reserved.
    start.context_length = measure.prompt_tokens + measure.answer_tokens * measure.streams;
    start.settings.parallel = measure.streams;
    auto ranks = LocalRanks::spawn(
        {"/proc/self/exe",
         "runner",
         "--prompt",
         std::to_string(measure.prompt_tokens),
         "--generate",
         std::to_string(measure.answer_tokens),
         "--streams",
         std::to_string(measure.streams)},
        start,
        places
    );
    if (!ranks) {
        return ranks.error();
    }
    EXO_TRY((*ranks)->connect(ready_limit));
    for (std::uint32_t rank = 0; rank < start.world_size; ++rank) {
        if (int const code = (*ranks)->wait(rank); code != 0) {
            return Error(Errc::unavailable, fmt::format("rank {} ended with code {}", rank, code));
        }
    }
    return {};
}

} // namespace exo::runner
