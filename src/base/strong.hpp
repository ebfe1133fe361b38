// SPDX-License-Identifier: Apache-2.0
//
// Ids and indices that cannot be mixed up: Strong<std::string, struct NodeIdTag> is no RunnerId.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <utility>

namespace exo {

template <class T, class Tag>
class Strong {
public:
    using Value = T;

    Strong() = default;

    explicit Strong(T value)
        : value_(std::move(value)) {}

    [[nodiscard]] T const& value() const { return value_; }

    auto operator<=>(Strong const&) const = default;

private:
    T value_{};
};

} // namespace exo

template <class T, class Tag>
struct std::hash<exo::Strong<T, Tag>> {
    std::size_t operator()(exo::Strong<T, Tag> const& strong) const {
        return std::hash<T>{}(strong.value());
    }
};
