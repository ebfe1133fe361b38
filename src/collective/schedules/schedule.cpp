// SPDX-License-Identifier: Apache-2.0
#include "collective/schedules/schedule.hpp"

#include "base/assert.hpp"

#include <algorithm>

namespace exo::collective {
namespace {

// Up to here a second step costs more than the bytes that it saves: at 100 MB/s, a slow link, this
// is the time of a few round trips.
constexpr std::size_t direct_bytes_max = 128 * 1024;

// A part may be empty (fewer values than ranks); such a move is left out on both sides.
void add_move(std::vector<Move>& moves, std::uint32_t peer, Range range) {
    if (range.count > 0) {
        moves.push_back({.peer = peer, .range = range});
    }
}

Schedule direct(std::uint32_t rank, std::uint32_t size, std::size_t count) {
    Step step{.arrival = Step::Arrival::sum};
    for (std::uint32_t peer = 0; peer < size; ++peer) {
        if (peer != rank) {
            add_move(step.sends, peer, {0, count});
            add_move(step.receives, peer, {0, count});
        }
    }
    return {step};
}

Schedule halves(std::uint32_t rank, std::uint32_t size, std::size_t count) {
    Range const own = part_of(count, size, rank);
    Step scatter{.arrival = Step::Arrival::sum};
    Step gather{.arrival = Step::Arrival::replace};
    for (std::uint32_t peer = 0; peer < size; ++peer) {
        if (peer != rank) {
            Range const theirs = part_of(count, size, peer);
            add_move(scatter.sends, peer, theirs);
            add_move(scatter.receives, peer, own);
            add_move(gather.sends, peer, own);
            add_move(gather.receives, peer, theirs);
        }
    }
    return {scatter, gather};
}

Schedule ring(std::uint32_t rank, std::uint32_t size, std::size_t count) {
    std::uint32_t const next = (rank + 1) % size;
    std::uint32_t const previous = (rank + size - 1) % size;
    // Part p starts its way at rank p and has passed all ranks after size - 1 steps; there it is
    // the sum, and goes round once more.
    auto const part = [&](std::uint32_t behind) {
        return part_of(count, size, (rank + 2 * size - behind) % size);
    };
    Schedule schedule;
    for (auto const arrival : {Step::Arrival::sum, Step::Arrival::replace}) {
        std::uint32_t const shift = arrival == Step::Arrival::sum ? 0 : size - 1;
        for (std::uint32_t round = 0; round + 1 < size; ++round) {
            Step step{.arrival = arrival};
            add_move(step.sends, next, part(round + shift));
            add_move(step.receives, previous, part(round + shift + 1));
            schedule.push_back(std::move(step));
        }
    }
    return schedule;
}

void add(std::span<float> to, std::span<float const> values) {
    EXO_ASSERT(to.size() == values.size());
    float* const sum = to.data();
    float const* const value = values.data();
    for (std::size_t i = 0; i < to.size(); ++i) {
        sum[i] += value[i];
    }
}

} // namespace

Range part_of(std::size_t count, std::uint32_t size, std::uint32_t rank) {
    EXO_ASSERT(rank < size);
    std::size_t const share = count / size;
    std::size_t const longer = count % size; // The first of the ranks have one more.
    return {
        .first = rank * share + std::min<std::size_t>(rank, longer),
        .count = share + (rank < longer ? 1 : 0),
    };
}

Algorithm choose(std::size_t count, std::uint32_t size) {
    EXO_ASSERT(size > 1);
    // Between two ranks both send the same bytes, and direct needs one step.
    bool const few_bytes = count * sizeof(float) * (size - 1) <= direct_bytes_max;
    return size == 2 || few_bytes ? Algorithm::direct : Algorithm::halves;
}

Schedule all_reduce_schedule(
    Algorithm algorithm, std::uint32_t rank, std::uint32_t size, std::size_t count
) {
    EXO_ASSERT(rank < size);
    EXO_ASSERT(algorithm != Algorithm::automatic);
    switch (algorithm) {
    case Algorithm::automatic:
    case Algorithm::direct:
        return direct(rank, size, count);
    case Algorithm::halves:
        return halves(rank, size, count);
    case Algorithm::ring:
        return ring(rank, size, count);
    }
    return {};
}

void sum_in_rank_order(
    Step const& step, std::uint32_t rank, std::span<float> own, std::span<float> arrivals
) {
    EXO_ASSERT(arrivals.size() == own.size() * step.receives.size());
    auto const arrival = [&](std::size_t i) {
        return arrivals.subspan(i * own.size(), own.size());
    };
    std::span<float> sum; // The lowest rank's values, which the others are added to.
    bool own_added = false;
    for (std::size_t i = 0; i < step.receives.size(); ++i) {
        if (!own_added && rank < step.receives[i].peer) {
            own_added = true;
            if (sum.empty()) {
                sum = own;
            } else {
                add(sum, own);
            }
        }
        if (sum.empty()) {
            sum = arrival(i);
        } else {
            add(sum, arrival(i));
        }
    }
    if (!own_added && !sum.empty()) {
        add(sum, own);
    }
    if (sum.data() != own.data()) {
        std::ranges::copy(sum, own.begin());
    }
}

} // namespace exo::collective
