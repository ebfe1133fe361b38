// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/reducer.hpp"

#include "base/assert.hpp"
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace exo::collective {
namespace {

// A model has a few: its width times the tokens of a micro-batch.
constexpr std::size_t plans_max = 64;
// What describe() looks through: from the values of a small model's token to a large micro-batch.
constexpr std::size_t described_values_min = 256;
constexpr std::size_t described_values_max = 8u << 20;

std::span<std::uint8_t> bytes_of(std::span<float> values) {
    return {reinterpret_cast<std::uint8_t*>(values.data()), values.size_bytes()};
}

std::span<float> part(std::span<float> values, Range range) {
    return values.subspan(range.first, range.count);
}

void grow(Bytes& bytes, std::size_t count) {
    bytes.resize(std::max(bytes.size(), count));
}

// To three significant bits: few numbers of values need a choice of their own.
std::size_t rounded_up(std::size_t count) {
    std::size_t const unit = std::max<std::size_t>(std::bit_floor(count) / 4, 1);
    return (count + unit - 1) / unit * unit;
}

std::size_t bytes_to_receive(Step const& step, WireFormat format) {
    std::size_t sum = 0;
    for (auto const& move : step.receives) {
        sum += wire_bytes(format, move.range.count);
    }
    return sum;
}

// Values in the order of their ranks.
std::size_t values_to_sum(Step const& step) {
    return step.receives.empty() ? 0 : step.receives.size() * step.receives[0].range.count;
}

} // namespace

Reducer::Reducer(TcpCore& core, Links links, Wish const& wish)
    : core_(core)
    , links_(std::move(links))
    , wish_(wish) {
    EXO_ASSERT(links_.size() == core.size());
}

Result<void> Reducer::all_reduce(std::span<float> values) {
    auto const& plan = plan_of(values.size());
    for (auto const& step : plan.schedule) {
        EXO_TRY(
            plan.format == WireFormat::f32 ? run(step, values)
                                           : run_converted(step, plan.format, values)
        );
    }
    return {};
}

Choice const& Reducer::choice_of(std::size_t count) {
    std::size_t const about = rounded_up(count);
    auto const [entry, is_new] = choices_.try_emplace(about);
    if (is_new) {
        entry->second = choose(about, links_, wish_);
    }
    return entry->second;
}

Reducer::Plan const& Reducer::plan_of(std::size_t count) {
    if (plans_.size() >= plans_max && !plans_.contains(count)) {
        plans_.clear();
    }
    auto const [entry, is_new] = plans_.try_emplace(count);
    if (is_new) {
        auto const& choice = choice_of(count);
        entry->second = {
            .format = choice.format,
            .schedule = all_reduce_schedule(choice.algorithm, core_.rank(), core_.size(), count),
        };
    }
    return entry->second;
}

// In f32, values are sent and replaced where they lie.
Result<void> Reducer::run(Step const& step, std::span<float> values) {
    bool const sums = step.arrival == Step::Arrival::sum;
    if (sums) {
        arrivals_.resize(std::max(arrivals_.size(), values_to_sum(step)));
    }
    Exchange exchange;
    std::size_t arrived = 0;
    for (auto const& move : step.receives) {
        auto const into = sums ? std::span(arrivals_).subspan(arrived, move.range.count)
                               : part(values, move.range);
        exchange.receive(move.peer, Operation::all_reduce, bytes_of(into));
        arrived += move.range.count;
    }
    for (auto const& move : step.sends) {
        exchange.send(move.peer, Operation::all_reduce, bytes_of(part(values, move.range)));
    }
    EXO_TRY(core_.run(exchange));
    if (sums) {
        sum(step, values);
    }
    return {};
}

Result<void> Reducer::run_converted(Step const& step, WireFormat format, std::span<float> values) {
    bool const sums = step.arrival == Step::Arrival::sum;
    Exchange exchange;
    grow(arrived_, bytes_to_receive(step, format));
    std::span<std::uint8_t> rest(arrived_);
    for (auto const& move : step.receives) {
        std::size_t const bytes = wire_bytes(format, move.range.count);
        exchange.receive(move.peer, Operation::all_reduce, rest.first(bytes));
        rest = rest.subspan(bytes);
    }
    pack_sends(step, format, values, exchange);
    EXO_TRY(core_.run(exchange));
    if (sums) {
        arrivals_.resize(std::max(arrivals_.size(), values_to_sum(step)));
    }
    std::size_t arrived = 0;
    rest = arrived_;
    for (auto const& move : step.receives) {
        std::size_t const bytes = wire_bytes(format, move.range.count);
        auto const into = sums ? std::span(arrivals_).subspan(arrived, move.range.count)
                               : part(values, move.range);
        from_wire(format, rest.first(bytes), into);
        rest = rest.subspan(bytes);
        arrived += move.range.count;
    }
    if (sums) {
        sum(step, values);
    }
    return {};
}

// Packs each range once, however many ranks it goes to, and brings step.wire_form of the own values
// into that form.
void Reducer::pack_sends(
    Step const& step, WireFormat format, std::span<float> values, Exchange& exchange
) {
    std::vector<Range> ranges;
    for (auto const& move : step.sends) {
        if (std::ranges::find(ranges, move.range) == ranges.end()) {
            ranges.push_back(move.range);
        }
    }
    bool const rounds = step.wire_form.count > 0;
    if (rounds && std::ranges::find(ranges, step.wire_form) == ranges.end()) {
        ranges.push_back(step.wire_form);
    }
    std::size_t total = 0;
    for (auto const& range : ranges) {
        total += wire_bytes(format, range.count);
    }
    grow(packed_, total); // Before anything points into it.
    std::span<std::uint8_t> rest(packed_);
    for (auto const& range : ranges) {
        auto const packed = rest.first(wire_bytes(format, range.count));
        rest = rest.subspan(packed.size());
        to_wire(format, part(values, range), packed);
        for (auto const& move : step.sends) {
            if (move.range == range) {
                exchange.send(move.peer, Operation::all_reduce, packed);
            }
        }
        if (rounds && range == step.wire_form) {
            from_wire(format, packed, part(values, range));
        }
    }
}

void Reducer::sum(Step const& step, std::span<float> values) {
    if (!step.receives.empty()) {
        auto const arrivals = std::span(arrivals_).first(values_to_sum(step));
        auto const own = part(values, step.receives[0].range);
        sum_in_rank_order(step, core_.rank(), own, arrivals);
    }
}

std::string Reducer::describe() const {
    std::string text = "sums go";
    std::optional<Choice> before;
    for (std::size_t count = described_values_min; count <= described_values_max; count *= 2) {
        auto const choice = choose(count, links_, wish_);
        bool const same =
            before && before->algorithm == choice.algorithm && before->format == choice.format;
        if (!same) {
            text += before ? fmt::format(", at {}", format_size(count * sizeof(float))) : "";
            text +=
                fmt::format(" by {} as {}", to_string(choice.algorithm), to_string(choice.format));
        }
        before = choice;
    }
    auto const slowest = links_.slowest();
    return text + fmt::format(
                      " (slowest link: {}{})",
                      collective::describe(slowest),
                      slowest.within_machine ? ", within this machine" : ""
                  );
}

} // namespace exo::collective
