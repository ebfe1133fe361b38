// SPDX-License-Identifier: Apache-2.0
//
// An input is one plan as rank 0 would send it. There is one way to write a plan, so what can be
// read is written as it was.
#include "base/assert.hpp"
#include "engine/batch/step_plan.hpp"
#include "fuzz_target.hpp"

#include <algorithm>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace exo::engine;
    exo::BytesView const bytes(data, size);
    auto const plan = decode_step_plan(bytes);
    if (!plan) {
        return 0;
    }
    EXO_ASSERT(std::ranges::equal(encode(*plan), bytes));
    PlanLimits const limits{
        .tokens_max = 64,
        .micro_batch = 16,
        .sequences_max = 8,
        .vocabulary_size = 1000,
        .context_length = 256,
    };
    if (validate(*plan, limits, plan->number) && plan->kind == StepPlan::Kind::decode) {
        EXO_ASSERT(!plan->tokens.empty() && plan->tokens.size() <= limits.tokens_max);
    }
    return 0;
}
