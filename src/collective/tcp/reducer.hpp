// SPDX-License-Identifier: Apache-2.0
//
// Carries out the reductions of a group: chooses a schedule and a wire format for each size, once,
// and moves its steps over a TcpCore. Used by one thread.
#pragma once

#include "collective/schedules/choice.hpp"
#include "collective/tcp/core.hpp"

#include <map>
#include <string>
#include <vector>

namespace exo::collective {

class Reducer {
public:
    // `core` must outlive it. REQUIRES: the links of its ranks.
    Reducer(TcpCore& core, Links links, Wish const& wish);

    [[nodiscard]] Result<void> all_reduce(std::span<float> values);

    // "sums go by direct exchange as f32, at 256.0 KiB by halves as f16 (slowest link: 66 us, 134
    // MB/s)".
    [[nodiscard]] std::string describe() const;

private:
    struct Plan {
        WireFormat format = WireFormat::f32;
        Schedule schedule;
    };

    [[nodiscard]] Plan const& plan_of(std::size_t count);
    [[nodiscard]] Choice const& choice_of(std::size_t count);
    [[nodiscard]] Result<void> run(Step const& step, std::span<float> values);
    [[nodiscard]] Result<void>
    run_converted(Step const& step, WireFormat format, std::span<float> values);
    void
    pack_sends(Step const& step, WireFormat format, std::span<float> values, Exchange& exchange);
    void sum(Step const& step, std::span<float> values);

    TcpCore& core_;
    Links const links_;
    Wish const wish_;
    std::map<std::size_t, Choice> choices_; // By the number of values, rounded up.
    std::map<std::size_t, Plan> plans_;     // By the number of values; a few come again and again.
    std::vector<float> arrivals_;
    Bytes packed_;  // What is sent, in its wire form.
    Bytes arrived_; // What comes, likewise.
};

} // namespace exo::collective
