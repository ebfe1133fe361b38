// SPDX-License-Identifier: Apache-2.0
//
// When to tell people that this node has found nobody, and what to tell. Pure; driven by the Host.
#pragma once

#include "base/time.hpp"
#include "net/diagnosis/facts.hpp"
#include "net/interfaces/interface.hpp"

#include <span>
#include <string>

namespace exo::net {

class Isolation {
public:
    // Who is there is found within this time, typically within half of it.
    static constexpr Duration grace = 10s;
    // One node alone is a use like any other, so it is not told again and again.
    static constexpr Duration repeat = 30min;

    enum class Word { nothing, begins, goes_on, ended };

    explicit Isolation(TimePoint now)
        : next_(now + grace) {}

    // What to say now. Call when the number of peers has changed, and at deadline().
    [[nodiscard]] Word look(std::size_t peers, TimePoint now);

    [[nodiscard]] TimePoint deadline() const { return next_; }

private:
    bool has_peers_ = false;
    bool told_ = false;
    TimePoint next_;
};

// Where was asked, why that failed, and what can be done.
[[nodiscard]] std::string isolation_text(
    bool uses_mdns, std::span<Interface const> interfaces, std::span<DialFacts const> dials
);

} // namespace exo::net
