// SPDX-License-Identifier: Apache-2.0
//
// Who sends which values to whom, in which step, so that all ranks end with the sum. Pure: made of
// (rank, size, count) alone, the same way on every rank; a transport carries it out (tcp/), a test
// simulates all ranks in one thread.
//
// In a step a rank sends ranges of its values as they were when the step began, and receives ranges
// from others: of a `sum` step they are added to its own in rank order (its own in its place), of a
// `replace` step they take the place of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace exo::collective {

struct Range {
    std::size_t first = 0;
    std::size_t count = 0;

    bool operator==(Range const&) const = default;
};

struct Move {
    std::uint32_t peer = 0;
    Range range;

    bool operator==(Move const&) const = default;
};

struct Step {
    enum class Arrival { sum, replace };

    Arrival arrival = Arrival::sum;
    std::vector<Move> sends;
    std::vector<Move> receives; // By peer, ascending; of one range each when they are summed.

    bool operator==(Step const&) const = default;
};

using Schedule = std::vector<Step>;

// How to sum. All give every rank the same bits; direct and halves also give the bits of a sum in
// rank order, whatever the number of ranks.
enum class Algorithm {
    automatic, // choose() by count and size.
    direct,    // One step: all values to all others. The least latency; (n - 1) times the bytes.
    halves,    // Two steps: each rank sums one part for all, then gives it to all. 2 (n - 1) / n
               // times the bytes, and no rank waits for a chain of others.
    ring,      // The same bytes in 2 (n - 1) steps, but only between neighbours: for machines that
               // are cabled in a ring or chain. Each part is summed in the order of the ring.
};

// The part of `count` values that is a rank's own in halves and ring; parts differ by one at most.
[[nodiscard]] Range part_of(std::size_t count, std::uint32_t size, std::uint32_t rank);

// REQUIRES: size > 1.
[[nodiscard]] Algorithm choose(std::size_t count, std::uint32_t size);

// REQUIRES: rank < size; not automatic.
[[nodiscard]] Schedule
all_reduce_schedule(Algorithm algorithm, std::uint32_t rank, std::uint32_t size, std::size_t count);

// What a `sum` step ends with: `own` (the values of its range) becomes the sum in rank order of
// itself and `arrivals`, which holds what came, one after the other in the order of step.receives.
// `arrivals` is used up.
void sum_in_rank_order(
    Step const& step, std::uint32_t rank, std::span<float> own, std::span<float> arrivals
);

} // namespace exo::collective
