// SPDX-License-Identifier: Apache-2.0
#include "net/host/pending_upgrades.hpp"

#include "base/assert.hpp"

#include <algorithm>

namespace exo::net {

PendingUpgrades::PendingUpgrades(std::size_t places_max, std::size_t places_per_source_max)
    : places_max_(places_max)
    , places_per_source_max_(places_per_source_max) {
    EXO_ASSERT(places_max_ > 0);
    EXO_ASSERT(places_per_source_max_ > 0);
}

PendingUpgrades::Admitted PendingUpgrades::admit(std::string const& source) {
    Admitted admitted{.ticket = next_++};
    auto const found = counts_.find(source);
    if (found != counts_.end() && found->second >= places_per_source_max_) {
        admitted.evicted = oldest_of(source);
    } else if (waiting_.size() >= places_max_) {
        admitted.evicted = oldest_of(largest_source());
    }
    if (admitted.evicted) {
        remove(*admitted.evicted);
    }
    waiting_.emplace(admitted.ticket, source);
    ++counts_[source];
    return admitted;
}

void PendingUpgrades::remove(Ticket ticket) {
    auto const found = waiting_.find(ticket);
    if (found == waiting_.end()) {
        return;
    }
    auto const count = counts_.find(found->second);
    EXO_ASSERT(count != counts_.end());
    if (--count->second == 0) {
        counts_.erase(count);
    }
    waiting_.erase(found);
}

PendingUpgrades::Ticket PendingUpgrades::oldest_of(std::string const& source) const {
    auto const found =
        std::ranges::find_if(waiting_, [&](auto const& entry) { return entry.second == source; });
    EXO_ASSERT(found != waiting_.end());
    return found->first;
}

// Of several, the one that has waited longest.
std::string const& PendingUpgrades::largest_source() const {
    EXO_ASSERT(!waiting_.empty());
    auto const most = std::ranges::max_element(counts_, {}, [](auto const& entry) {
                          return entry.second;
                      })->second;
    auto const found = std::ranges::find_if(waiting_, [&](auto const& entry) {
        return counts_.at(entry.second) == most;
    });
    return found->second;
}

} // namespace exo::net
