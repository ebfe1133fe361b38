// SPDX-License-Identifier: Apache-2.0
//
// What llama.cpp's unified KV cache does with a step plan, cell by cell, without numbers: each cell
// has the token that was computed into it, so a test sees which text a sequence stands on.
#pragma once

#include "engine/batch/step_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace exo::engine {

class FakeCache {
public:
    explicit FakeCache(std::size_t cells)
        : cells_(cells) {}

    void apply(StepPlan const& plan) {
        for (auto const& change : plan.changes) {
            std::visit([&](auto const& each) { apply(each); }, change);
        }
        for (auto const& token : plan.tokens) {
            ASSERT_EQ(token.position, length(token.sequence));
            auto const free = std::ranges::find(cells_, 0u, &Cell::sequences);
            ASSERT_NE(free, cells_.end()) << "the cache is full";
            *free = {token.position, token.token, bit(token.sequence)};
        }
    }

    // What is cached of a sequence, in order.
    [[nodiscard]] std::vector<std::int32_t> text(std::uint32_t sequence) const {
        std::vector<std::int32_t> tokens(std::size_t(length(sequence)), -1);
        for (auto const& cell : cells_) {
            if ((cell.sequences & bit(sequence)) != 0) {
                auto& token = tokens.at(std::size_t(cell.position));
                EXPECT_EQ(token, -1) << "two cells for one position";
                token = cell.token;
            }
        }
        return tokens;
    }

    [[nodiscard]] std::size_t free_cells() const {
        return std::size_t(std::ranges::count(cells_, 0u, &Cell::sequences));
    }

private:
    struct Cell {
        std::int32_t position = 0;
        std::int32_t token = 0;
        std::uint32_t sequences = 0; // A bit for each.
    };

    static std::uint32_t bit(std::uint32_t sequence) { return 1u << sequence; }

    [[nodiscard]] std::int32_t length(std::uint32_t sequence) const {
        return std::int32_t(std::ranges::count_if(cells_, [&](Cell const& cell) {
            return (cell.sequences & bit(sequence)) != 0;
        }));
    }

    void apply(CacheRemoval const& removal) {
        for (auto& cell : cells_) {
            if (cell.position >= removal.from && (removal.to < 0 || cell.position < removal.to)) {
                cell.sequences &= ~bit(removal.sequence);
            }
        }
    }

    void apply(CacheCopy const& copy) {
        ASSERT_EQ(length(copy.sequence), 0);
        for (auto& cell : cells_) {
            if ((cell.sequences & bit(copy.source)) != 0 &&
                (copy.to < 0 || cell.position < copy.to)) {
                cell.sequences |= bit(copy.sequence);
            }
        }
    }

    std::vector<Cell> cells_;
};

} // namespace exo::engine
