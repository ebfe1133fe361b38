// SPDX-License-Identifier: Apache-2.0
#include "engine/cluster_device/byte_ranges.hpp"

#include <algorithm>

namespace exo::engine {

void ByteRanges::add(ByteRange range) {
    if (range.size() == 0) {
        return;
    }
    auto first = ends_.upper_bound(range.begin);
    if (first != ends_.begin() && std::prev(first)->second >= range.begin) {
        --first;
    }
    auto last = first;
    while (last != ends_.end() && last->first <= range.end) {
        range.begin = std::min(range.begin, last->first);
        range.end = std::max(range.end, last->second);
        ++last;
    }
    ends_.erase(first, last);
    ends_.emplace(range.begin, range.end);
}

bool ByteRanges::covers(ByteRange range) const {
    if (range.size() == 0) {
        return true;
    }
    auto const after = ends_.upper_bound(range.begin);
    return after != ends_.begin() && std::prev(after)->second >= range.end;
}

} // namespace exo::engine
