// SPDX-License-Identifier: Apache-2.0
//
// What one rank does with a step plan: the same llama.cpp calls as all others. After each decode it
// looks at the latch of the cluster device; logits of a failed step must not be used.
#pragma once

#include "base/result.hpp"
#include "engine/batch/cache_index.hpp"
#include "engine/batch/step_plan.hpp"
#include "engine/load/loader.hpp"

#include <span>
#include <vector>

namespace exo::engine {

class Decoder {
public:
    // `loaded` must outlive the object.
    Decoder(LoadedModel& loaded, PlanLimits limits);

    // Errors: protocol (a bad plan), those of the cluster, internal (llama.cpp refused).
    Result<void> execute(StepPlan const& plan);

    // After the token at `index` of the last plan, which asked for them. Rank 0 only.
    [[nodiscard]] std::span<float const> logits(std::size_t index) const;

    // Of the first cell of a sequence that is still there; -1 if it has none.
    [[nodiscard]] std::int32_t first_position(std::uint32_t sequence) const;

    // Finds out what the memory of this model allows, and empties it: for the end of a warm-up.
    // REQUIRES: sequence 0 has more than one token.
    void learn_cache_kind();

    // Until it is learned nothing may be cut.
    [[nodiscard]] CacheKind const& cache_kind() const { return kind_; }

    [[nodiscard]] std::uint64_t next_number() const { return next_number_; }

    [[nodiscard]] PlanLimits const& limits() const { return limits_; }

private:
    // What llama_batch points to, kept between steps.
    struct Arrays {
        std::vector<llama_token> tokens;
        std::vector<llama_pos> positions;
        std::vector<std::int32_t> sequence_counts;
        std::vector<llama_seq_id> sequences;
        std::vector<llama_seq_id*> sequence_lists;
        std::vector<std::int8_t> outputs;
    };

    Result<void> change_cache(CacheRemoval const& removal);
    Result<void> change_cache(CacheCopy const& copy);
    [[nodiscard]] llama_batch fill_batch(std::vector<PlanToken> const& tokens);

    LoadedModel& loaded_;
    PlanLimits limits_;
    CacheKind kind_{.cuttable = false};
    Arrays arrays_;
    std::uint64_t next_number_ = 0;
};

} // namespace exo::engine
