// SPDX-License-Identifier: Apache-2.0
//
// Random numbers for decisions that a simulation must repeat: the same seed gives the same numbers
// on every platform (std::uniform_* does not promise that). Not for secrets: entropy.hpp.
#pragma once

#include "base/assert.hpp"

#include <cstdint>

namespace exo {

// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
class Random {
public:
    explicit Random(std::uint64_t seed)
        : state_(seed) {}

    [[nodiscard]] std::uint64_t next() {
        state_ += 0x9e3779b97f4a7c15;
        std::uint64_t x = state_;
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
        x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
        return x ^ (x >> 31);
    }

    // Uniform in [0, bound), up to a bias of bound / 2^64. REQUIRES: bound > 0.
    [[nodiscard]] std::uint64_t below(std::uint64_t bound) {
        EXO_ASSERT(bound > 0);
        return next() % bound;
    }

    // True `numerator` times of `denominator`. REQUIRES: denominator > 0.
    [[nodiscard]] bool chance(std::uint64_t numerator, std::uint64_t denominator) {
        return below(denominator) < numerator;
    }

    bool operator==(Random const&) const = default;

private:
    std::uint64_t state_;
};

} // namespace exo
