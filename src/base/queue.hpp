// SPDX-License-Identifier: Apache-2.0
//
// How a machine hands out what it has decided: oldest first, until there is none.
#pragma once

#include <deque>
#include <optional>
#include <utility>

namespace exo {

template <class T>
[[nodiscard]] std::optional<T> take_front(std::deque<T>& queue) {
    if (queue.empty()) {
        return std::nullopt;
    }
    std::optional<T> first(std::move(queue.front()));
    queue.pop_front();
    return first;
}

} // namespace exo
