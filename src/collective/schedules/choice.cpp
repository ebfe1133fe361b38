// SPDX-License-Identifier: Apache-2.0
#include "collective/schedules/choice.hpp"

#include "base/assert.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

namespace exo::collective {
namespace {

// What a message costs the core that sends or receives it, beside its bytes: a system call and the
// kernel's way through TCP (bench/collective_bench).
constexpr std::uint64_t message_ns = 4'000;
// To pack or unpack a thousand values, with the CPU's slower code (bench/collective_bench).
constexpr std::uint64_t convert_thousand_ns = 500;
// The most precise format is taken that costs no more than this share of its time over the fastest:
// precision is not given away for nothing, and small messages, whose time is latency, stay precise.
constexpr std::uint64_t saving_share = 8;

std::uint64_t nearest_power_of_two(std::uint64_t value) {
    if (value == 0) {
        return 1;
    }
    std::uint64_t const below = std::bit_floor(value);
    return value - below < below / 2 ? below : below * 2;
}

// Of one rank in one step: its messages share its way to the network, in each direction.
class StepTime {
public:
    StepTime(WireFormat format, Links const& links, std::uint32_t rank)
        : format_(format)
        , links_(links)
        , rank_(rank) {}

    [[nodiscard]] std::uint64_t of(Step const& step) {
        std::uint64_t const out = add(step.sends);
        std::uint64_t const in = add(step.receives);
        std::uint64_t const convert =
            format_ == WireFormat::f32 ? 0 : values_ * convert_thousand_ns / 1000;
        return std::max(out, in) + latency_ + convert;
    }

private:
    std::uint64_t add(std::vector<Move> const& moves) {
        std::uint64_t time = 0;
        for (auto const& move : moves) {
            auto const& link = links_.between(rank_, move.peer);
            std::uint64_t const bytes = wire_bytes(format_, move.range.count);
            time += message_ns +
                    bytes * 1'000'000'000 / std::max<std::uint64_t>(link.bytes_per_second, 1);
            latency_ = std::max(latency_, link.latency_ns);
            values_ += move.range.count;
        }
        return time;
    }

    WireFormat format_;
    Links const& links_;
    std::uint32_t rank_;
    std::uint64_t latency_ = 0;
    std::uint64_t values_ = 0;
};

std::vector<Algorithm> candidates(Algorithm wish) {
    if (wish != Algorithm::automatic) {
        return {wish};
    }
    return {std::begin(algorithms), std::end(algorithms)};
}

// The most precise first.
std::vector<WireFormat> candidates(WireFormat wish, LinkSpeed const& slowest) {
    if (wish != WireFormat::automatic) {
        return {wish};
    }
    if (slowest.within_machine || slowest.bytes_per_second >= fast_bytes_per_second) {
        return {WireFormat::f32};
    }
    if (slowest.bytes_per_second >= very_slow_bytes_per_second) {
        return {WireFormat::f32, WireFormat::f16};
    }
    return {WireFormat::f32, WireFormat::f16, WireFormat::q8};
}

Choice fastest(
    std::vector<Algorithm> const& among, WireFormat format, std::size_t count, Links const& links
) {
    std::optional<Choice> best;
    for (auto const algorithm : among) {
        std::uint64_t const time = expected_ns(algorithm, format, count, links);
        if (!best || time < best->expected_ns) { // Equal ones: the first, with fewer steps.
            best = {.algorithm = algorithm, .format = format, .expected_ns = time};
        }
    }
    return *best;
}

} // namespace

LinkSpeed rounded(LinkSpeed speed) {
    speed.latency_ns = nearest_power_of_two(speed.latency_ns);
    speed.bytes_per_second = nearest_power_of_two(speed.bytes_per_second);
    return speed;
}

std::string describe(LinkSpeed const& speed) {
    return fmt::format(
        "{:.0f} us, {:.0f} MB/s",
        static_cast<double>(speed.latency_ns) / 1e3,
        static_cast<double>(speed.bytes_per_second) / 1e6
    );
}

Links::Links(std::uint32_t size, LinkSpeed const& all)
    : size_(size)
    , speeds_(std::size_t{size} * size, all) {}

std::size_t Links::index(std::uint32_t one, std::uint32_t other) const {
    EXO_ASSERT(one < size_);
    EXO_ASSERT(other < size_);
    EXO_ASSERT(one != other);
    return std::size_t{std::min(one, other)} * size_ + std::max(one, other);
}

void Links::set(std::uint32_t one, std::uint32_t other, LinkSpeed const& speed) {
    speeds_[index(one, other)] = speed;
}

LinkSpeed const& Links::between(std::uint32_t one, std::uint32_t other) const {
    return speeds_[index(one, other)];
}

LinkSpeed Links::slowest() const {
    EXO_ASSERT(size_ > 1);
    LinkSpeed found = between(0, 1);
    for (std::uint32_t one = 0; one < size_; ++one) {
        for (std::uint32_t other = one + 1; other < size_; ++other) {
            auto const& speed = between(one, other);
            bool const slower = speed.bytes_per_second < found.bytes_per_second;
            // One within a machine says nothing of the others.
            bool const outside = found.within_machine && !speed.within_machine;
            bool const inside = !found.within_machine && speed.within_machine;
            if (outside || (slower && !inside)) {
                found = speed;
            }
        }
    }
    return found;
}

std::uint64_t
expected_ns(Algorithm algorithm, WireFormat format, std::size_t count, Links const& links) {
    std::uint32_t const size = links.size();
    std::vector<std::uint64_t> steps; // A step is over when the slowest rank is done with it.
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        auto const schedule = all_reduce_schedule(algorithm, rank, size, count);
        steps.resize(schedule.size());
        for (std::size_t i = 0; i < schedule.size(); ++i) {
            StepTime time(format, links, rank);
            steps[i] = std::max(steps[i], time.of(schedule[i]));
        }
    }
    std::uint64_t sum = 0;
    for (auto const step : steps) {
        sum += step;
    }
    return sum;
}

Choice choose(std::size_t count, Links const& links, Wish const& wish) {
    EXO_ASSERT(links.size() > 1);
    std::vector<Choice> best; // Of each format, the most precise first.
    for (auto const format : candidates(wish.format, links.slowest())) {
        best.push_back(fastest(candidates(wish.algorithm), format, count, links));
    }
    auto const fastest_ns = std::ranges::min_element(best, {}, &Choice::expected_ns)->expected_ns;
    return *std::ranges::find_if(best, [fastest_ns](Choice const& choice) {
        return choice.expected_ns - choice.expected_ns / saving_share <= fastest_ns;
    });
}

} // namespace exo::collective
