// SPDX-License-Identifier: Apache-2.0
#include "engine/draft/draft_length.hpp"

#include "base/assert.hpp"

#include <algorithm>

namespace exo::engine {
namespace {

// Little is lost when all of them are wrong, and two steps that are right make it the default's 8.
constexpr std::uint32_t first_length = 4;
constexpr std::uint32_t growth = 2;
// One miss is chance; three say that the text has become hard to guess.
constexpr std::uint32_t misses_most = 3;
// In steps. After the first rest the text may be easy again; after many, a try in 128 steps costs
// next to nothing and still finds out.
constexpr std::uint32_t first_rest = 8;
constexpr std::uint32_t rest_most = 128;

} // namespace

DraftLength::DraftLength(std::uint32_t most)
    : most_(most)
    , length_(std::min(most, first_length))
    , rest_(first_rest) {
    EXO_ASSERT(most > 0);
}

void DraftLength::note(std::uint32_t drafted, std::uint32_t accepted) {
    EXO_ASSERT(drafted > 0 && accepted <= drafted);
    length_ = std::min(most_, accepted == drafted ? drafted + growth : accepted + 1);
    if (accepted > 0) {
        misses_ = 0;
        rest_ = first_rest;
        return;
    }
    if (++misses_ == misses_most) {
        misses_ = 0;
        resting_ = rest_;
        rest_ = std::min(rest_most, rest_ * 2);
    }
}

void DraftLength::pass() {
    resting_ -= resting_ > 0 ? 1 : 0;
}

std::uint32_t drafts_for_each(std::uint32_t generating) {
    if (generating == 0 || generating > drafting_sequences_most) {
        return 0;
    }
    return step_drafts_most / generating;
}

} // namespace exo::engine
