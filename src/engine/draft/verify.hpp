// SPDX-License-Identifier: Apache-2.0
//
// Which drafts were right: the tokens that the sequence's own sampler chooses, in order, from the
// model's logits decide, so an answer is what it would be without drafts, whatever the sampler
// does. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace exo::engine {

struct Verdict {
    std::uint32_t kept = 0; // The first drafts, which were right.
    // Comes after them; none when the answer has ended.
    std::optional<std::int32_t> next;

    bool operator==(Verdict const&) const = default;
};

// choose(i): the token after the i-th of the outputs, of which there is one more than drafts. It is
// asked in order, once each and not after a wrong draft, for it moves the sampler on.
// take(token): the token is part of the answer; true if the answer ends with it.
template <class Choose, class Take>
[[nodiscard]] Verdict
verify(std::span<std::int32_t const> drafts, Choose const& choose, Take const& take) {
    for (std::uint32_t i = 0;; ++i) {
        std::int32_t const token = choose(i);
        if (take(token)) {
            return {.kept = i, .next = std::nullopt};
        }
        if (i == drafts.size() || drafts[i] != token) {
            return {.kept = i, .next = token};
        }
    }
}

} // namespace exo::engine
