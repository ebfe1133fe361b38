// SPDX-License-Identifier: Apache-2.0
//
// Strangers that were shown out, for people who ask why a node is missing. Pure.
#pragma once

#include "base/time.hpp"
#include "net/diagnosis/facts.hpp"

#include <map>
#include <string>
#include <vector>

namespace exo::net {

class Refusals {
public:
    // By address; the one that was refused longest ago makes room.
    static constexpr std::size_t entries_max = 64;

    void add(std::string const& ip, std::string reason, TimePoint now);

    // The last one first.
    [[nodiscard]] std::vector<RefusalFacts> facts() const;

private:
    std::map<std::string, RefusalFacts> entries_;
};

} // namespace exo::net
