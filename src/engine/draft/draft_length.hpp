// SPDX-License-Identifier: Apache-2.0
//
// How many tokens to draft for a sequence, learned from how many were right. A text is easy to
// guess for a while and then hard again, so what counts is the last steps. Pure.
#pragma once

#include <cstdint>

namespace exo::engine {

class DraftLength {
public:
    // REQUIRES: most > 0.
    explicit DraftLength(std::uint32_t most);

    // For the next step; 0 while it rests.
    [[nodiscard]] std::uint32_t next() const { return resting_ > 0 ? 0 : length_; }

    // A step in which so many were drafted and checked, the first `accepted` of which were right.
    // Longer by two when all were, else one more than were. After some steps in vain it rests, the
    // next time longer.
    void note(std::uint32_t drafted, std::uint32_t accepted);

    // A step without drafts: the rest goes on.
    void pass();

private:
    std::uint32_t most_;
    std::uint32_t length_;
    std::uint32_t misses_ = 0; // Steps in a row without any that was right.
    std::uint32_t rest_;       // How many steps the next rest takes.
    std::uint32_t resting_ = 0;
};

// The rule for a busy batch: a step checks drafts of at most so many sequences. With more of them
// the kernels are as busy as drafts would make them, and each draft takes time from the others.
constexpr std::uint32_t drafting_sequences_most = 3;
// And it checks at most so many drafts in all: beyond, a step costs as much as it saves even when
// most are right.
constexpr std::uint32_t step_drafts_most = 16;

// Drafts that each of `generating` sequences may have in a step; 0 in a busy batch.
[[nodiscard]] std::uint32_t drafts_for_each(std::uint32_t generating);

} // namespace exo::engine
