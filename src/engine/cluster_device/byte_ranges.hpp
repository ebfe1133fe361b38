// SPDX-License-Identifier: Apache-2.0
//
// A set of addresses, kept as ranges that neither overlap nor touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace exo::engine {

struct ByteRange {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;

    [[nodiscard]] static ByteRange of(void const* at, std::size_t bytes) {
        auto const begin = reinterpret_cast<std::uintptr_t>(at);
        return {begin, begin + bytes};
    }

    [[nodiscard]] std::size_t size() const { return end - begin; }

    [[nodiscard]] void* data() const { return reinterpret_cast<void*>(begin); }

    bool operator==(ByteRange const&) const = default;
};

class ByteRanges {
public:
    void add(ByteRange range);

    // True also for an empty range.
    [[nodiscard]] bool covers(ByteRange range) const;

    // Ends by their beginnings.
    [[nodiscard]] std::map<std::uintptr_t, std::uintptr_t> const& all() const { return ends_; }

    void clear() { ends_.clear(); }

private:
    std::map<std::uintptr_t, std::uintptr_t> ends_;
};

} // namespace exo::engine
