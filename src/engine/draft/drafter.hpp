// SPDX-License-Identifier: Apache-2.0
//
// Guesses of the next tokens of a sequence, cheap to make, which the model then checks all in one
// step (speculative decoding). A wrong guess costs time and never changes the answer.
//
// Rank 0 only, on the engine's thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace exo::engine {

class Drafter {
public:
    Drafter() = default;
    Drafter(Drafter const&) = delete;
    Drafter& operator=(Drafter const&) = delete;
    virtual ~Drafter() = default;

    // At most `most` tokens that may follow `tokens`, which is all that is known of the sequence in
    // `slot`: prompt and answer. None when there is nothing worth to be checked.
    [[nodiscard]] virtual std::vector<std::int32_t>
    propose(std::uint32_t slot, std::span<std::int32_t const> tokens, std::uint32_t most) = 0;

    // The sequence has ended. What comes next in the slot is another one; a drafter that was not
    // told finds out by the tokens.
    virtual void forget(std::uint32_t slot) = 0;
};

} // namespace exo::engine
