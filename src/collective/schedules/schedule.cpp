// SPDX-License-Identifier: Apache-2.0
#include "collective/schedules/schedule.hpp"

#include "base/assert.hpp"
#include "collective/wire/wire_format.hpp"

#include <algorithm>
#include <bit>

namespace exo::collective {
namespace {

// A part may be empty (fewer values than ranks); such a move is left out on both sides.
void add_move(std::vector<Move>& moves, std::uint32_t peer, Range range) {
    if (range.count > 0) {
        moves.push_back({.peer = peer, .range = range});
    }
}

Schedule direct(std::uint32_t rank, std::uint32_t size, std::size_t count) {
    Step step{.arrival = Step::Arrival::sum, .wire_form = {0, count}};
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
    Step gather{.arrival = Step::Arrival::replace, .wire_form = own};
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
            if (arrival == Step::Arrival::replace && round == 0) {
                step.wire_form = part(shift); // All others came over the wire.
            }
            add_move(step.sends, next, part(round + shift));
            add_move(step.receives, previous, part(round + shift + 1));
            schedule.push_back(std::move(step));
        }
    }
    return schedule;
}

// The recursive algorithms are for a power of two. The ranks beyond it give their values to one
// within it first, and get the sum last.
class Folded {
public:
    Folded(std::uint32_t rank, std::uint32_t size, std::size_t count)
        : rank_(rank)
        , size_(size)
        , core_(std::bit_floor(size))
        , all_{0, count} {}

    [[nodiscard]] std::uint32_t core() const { return core_; }

    [[nodiscard]] bool in_core() const { return rank_ < core_; }

    void fold(Schedule& schedule) const {
        if (core_ == size_) {
            return;
        }
        Step step{.arrival = Step::Arrival::sum};
        if (!in_core()) {
            add_move(step.sends, rank_ - core_, all_);
        } else if (rank_ + core_ < size_) {
            add_move(step.receives, rank_ + core_, all_);
        }
        schedule.push_back(std::move(step));
    }

    // `wire_form`: what all of the core must round because some of it send it.
    void unfold(Schedule& schedule, Range wire_form) const {
        if (core_ == size_) {
            return;
        }
        Step step{.arrival = Step::Arrival::replace};
        if (!in_core()) {
            add_move(step.receives, rank_ - core_, all_);
        } else {
            step.wire_form = wire_form;
        }
        if (in_core() && rank_ + core_ < size_) {
            add_move(step.sends, rank_ + core_, all_);
        }
        schedule.push_back(std::move(step));
    }

private:
    std::uint32_t rank_;
    std::uint32_t size_;
    std::uint32_t core_;
    Range all_;
};

Schedule recursive_doubling(std::uint32_t rank, std::uint32_t size, std::size_t count) {
    Folded const folded(rank, size, count);
    Schedule schedule;
    folded.fold(schedule);
    for (std::uint32_t distance = 1; distance < folded.core(); distance *= 2) {
        Step step{.arrival = Step::Arrival::sum};
        if (folded.in_core()) {
            step.wire_form = {0, count};
            add_move(step.sends, rank ^ distance, {0, count});
            add_move(step.receives, rank ^ distance, {0, count});
        }
        schedule.push_back(std::move(step));
    }
    folded.unfold(schedule, {0, count});
    return schedule;
}

Schedule recursive_halving(std::uint32_t rank, std::uint32_t size, std::size_t count) {
    Folded const folded(rank, size, count);
    // The values of `parts` parts from the one on that a rank has after halving to that number.
    auto const held_by = [&](std::uint32_t holder, std::uint32_t parts) {
        std::uint32_t const first = holder / parts * parts;
        Range const begin = part_of(count, folded.core(), first);
        Range const end = part_of(count, folded.core(), first + parts - 1);
        return Range{.first = begin.first, .count = end.first + end.count - begin.first};
    };
    Schedule schedule;
    folded.fold(schedule);
    for (std::uint32_t distance = folded.core() / 2; distance > 0; distance /= 2) {
        Step step{.arrival = Step::Arrival::sum};
        if (folded.in_core()) {
            std::uint32_t const partner = rank ^ distance;
            add_move(step.sends, partner, held_by(partner, distance));
            add_move(step.receives, partner, held_by(rank, distance));
        }
        schedule.push_back(std::move(step));
    }
    for (std::uint32_t distance = 1; distance < folded.core(); distance *= 2) {
        Step step{.arrival = Step::Arrival::replace};
        if (folded.in_core()) {
            std::uint32_t const partner = rank ^ distance;
            if (distance == 1) {
                step.wire_form = held_by(rank, 1); // All others came over the wire.
            }
            add_move(step.sends, partner, held_by(rank, distance));
            add_move(step.receives, partner, held_by(partner, distance));
        }
        schedule.push_back(std::move(step));
    }
    folded.unfold(schedule, {}); // All of it came over the wire, or was rounded for it.
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

char const* to_string(Algorithm algorithm) {
    switch (algorithm) {
    case Algorithm::automatic:
        return "automatic";
    case Algorithm::direct:
        return "direct exchange";
    case Algorithm::halves:
        return "halves";
    case Algorithm::ring:
        return "ring";
    case Algorithm::recursive_doubling:
        return "recursive doubling";
    case Algorithm::recursive_halving:
        return "recursive halving";
    }
    return "unknown";
}

Range part_of(std::size_t count, std::uint32_t size, std::uint32_t rank) {
    EXO_ASSERT(rank < size);
    std::size_t const blocks = (count + wire_block_values - 1) / wire_block_values;
    std::size_t const share = blocks / size;
    std::size_t const longer = blocks % size; // The first of the ranks have one more.
    auto const begin = [&](std::size_t r) {
        return std::min(count, (r * share + std::min(r, longer)) * wire_block_values);
    };
    return {.first = begin(rank), .count = begin(rank + std::size_t{1}) - begin(rank)};
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
    case Algorithm::recursive_doubling:
        return recursive_doubling(rank, size, count);
    case Algorithm::recursive_halving:
        return recursive_halving(rank, size, count);
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
