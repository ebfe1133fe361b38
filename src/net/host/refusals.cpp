// SPDX-License-Identifier: Apache-2.0
#include "net/host/refusals.hpp"

#include <algorithm>

namespace exo::net {

void Refusals::add(std::string const& ip, std::string reason, TimePoint now) {
    auto const last = [](auto const& item) { return item.second.last; };
    if (entries_.size() == entries_max && !entries_.contains(ip)) {
        entries_.erase(std::ranges::min_element(entries_, {}, last));
    }
    auto& entry = entries_.try_emplace(ip, RefusalFacts{.ip = ip}).first->second;
    entry.reason = std::move(reason);
    ++entry.count;
    entry.last = now;
}

std::vector<RefusalFacts> Refusals::facts() const {
    std::vector<RefusalFacts> result;
    for (auto const& [ip, entry] : entries_) {
        result.push_back(entry);
    }
    std::ranges::sort(result, std::greater(), &RefusalFacts::last);
    return result;
}

} // namespace exo::net
