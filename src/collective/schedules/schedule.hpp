// SPDX-License-Identifier: Apache-2.0
//
// Who sends which values to whom, in which step, so that all ranks end with the sum. Pure: made of
// (rank, size, count) alone, the same way on every rank; a transport carries it out (tcp/), a test
// simulates all ranks in one thread.
//
// In a step a rank sends ranges of its values as they were when the step began, and receives ranges
// from others: of a `sum` step they are added to its own in rank order (its own in its place), of a
// `replace` step they take the place of its own.
//
// Values travel in a wire format (wire/wire_format.hpp), which may round them. For all ranks to end
// with the same bits, what several ranks use must be used by all of them as it was on the wire: at
// the start of a step a rank brings `wire_form` of its own values into that form. Other values stay
// as precise as they are. Ranges begin at whole blocks, so passing a value on rounds it no further.
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
    Range
        wire_form; // One of the ranges that are sent, or of several ranks' where this one is idle.
    std::vector<Move> sends;
    std::vector<Move> receives; // By peer, ascending; of one range each when they are summed.

    bool operator==(Step const&) const = default;
};

using Schedule = std::vector<Step>;

// How to sum. All give every rank the same bits; direct and halves also give the bits of a sum in
// rank order (in f32), whatever the number of ranks. Of n ranks and m bytes:
enum class Algorithm : std::uint8_t {
    automatic, // As the links ask for: choice.hpp.
    direct,    // One step: all values to all others. The least latency; (n - 1) m sent.
    halves,    // Two steps: each rank sums one part for all, then gives it to all. 2 (n - 1) / n m
               // sent, and no rank waits for a chain of others; 2 (n - 1) messages.
    ring,      // The same bytes in 2 (n - 1) steps, but only between neighbours: for machines that
               // are cabled in a ring or chain. Each part is summed in the order of the ring.
    recursive_doubling, // log2 n steps between pairs, all values each: few messages for few bytes.
    recursive_halving,  // 2 log2 n steps between pairs: the parts are halved and summed, then
                        // gathered. 2 (n - 1) / n m sent, in fewer messages than halves.
};

constexpr Algorithm algorithms[] = {
    Algorithm::direct,
    Algorithm::halves,
    Algorithm::recursive_doubling,
    Algorithm::recursive_halving,
    Algorithm::ring,
};

[[nodiscard]] char const* to_string(Algorithm algorithm);

// The part of `count` values that is a rank's own. Parts begin at whole blocks of the wire and
// differ by one block at most; the last ranks may have none.
[[nodiscard]] Range part_of(std::size_t count, std::uint32_t size, std::uint32_t rank);

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
