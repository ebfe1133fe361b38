// SPDX-License-Identifier: Apache-2.0
//
// What the KV cache holds, by slot (a sequence of llama.cpp), and which beginning of a new prompt
// is there already. A slot belongs to a running sequence, or remembers one that has ended until its
// cells or its place are needed: the least recently used goes first. Slots share the cells of a
// common beginning. Every change is written down for the next step plan, so that the cache of each
// rank goes the same way. Pure.
//
// Sequences of different requests share cells only where their tokens are equal from the first on,
// and then a cell holds the same for both. So a request learns nothing of another's text but, by
// the time it takes, that its beginning was asked before.
#pragma once

#include "engine/batch/step_plan.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace exo::engine {

// What the model's memory allows; equal on all ranks.
struct CacheKind {
    // False for recurrent and hybrid models: their state is that after the last token, so it can be
    // continued or forgotten as a whole only.
    bool cuttable = true;
    // Sliding window attention: a token needs those so many positions before it, and older cells
    // may be gone; 0: all are needed, and there.
    std::uint32_t window = 0;

    bool operator==(CacheKind const&) const = default;
};

class CacheIndex {
public:
    // The position of the first cell that llama.cpp still has of a slot.
    using FirstPosition = std::function<std::int32_t(std::uint32_t slot)>;

    CacheIndex(std::uint32_t slots, std::uint32_t cells);

    void set_kind(CacheKind kind) { kind_ = kind; }

    [[nodiscard]] CacheKind const& kind() const { return kind_; }

    // The first `tokens` cells of a slot.
    struct Hit {
        std::uint32_t slot = 0;
        std::uint32_t tokens = 0;

        bool operator==(Hit const&) const = default;
    };

    // The longest beginning of `tokens` that can be used; 0 tokens if there is none.
    [[nodiscard]] Hit
    find(std::span<std::int32_t const> tokens, FirstPosition const& first_position) const;

    // A slot for a running sequence that begins with the hit. REQUIRES: not all slots run.
    [[nodiscard]] std::uint32_t take(Hit const& hit);

    // Computed in this step. REQUIRES: free cells for it; the slot runs.
    void append(std::uint32_t slot, std::span<std::int32_t const> tokens);

    // Keeps the first `length` tokens. REQUIRES: the slot runs; cuttable, or nothing to cut.
    void cut(std::uint32_t slot, std::uint32_t length);

    // The sequence has ended or pauses; what was computed is remembered.
    void release(std::uint32_t slot);

    // Forgets what it must for so many free cells. REQUIRES: cells_for_running() allows it.
    void make_room(std::uint32_t cells);

    // Forgets all, and what others left in the slots. REQUIRES: no slot runs.
    void clear();

    [[nodiscard]] std::uint32_t cells_free() const {
        return static_cast<std::uint32_t>(free_.size());
    }

    // Cells that running sequences do not have: free, or only remembered.
    [[nodiscard]] std::uint32_t cells_for_running() const {
        return static_cast<std::uint32_t>(cells_.size()) - running_cells_;
    }

    // How many of the hit's cells no running sequence has yet.
    [[nodiscard]] std::uint32_t cells_to_gain(Hit const& hit) const;

    [[nodiscard]] std::span<std::int32_t const> tokens(std::uint32_t slot) const {
        return slots_[slot].tokens;
    }

    // For the next plan, in this order.
    [[nodiscard]] std::vector<CacheChange> take_changes() { return std::exchange(changes_, {}); }

private:
    struct Slot {
        std::vector<std::int32_t> tokens;
        std::vector<std::uint32_t> cells; // One for each token.
        bool running = false;
        std::uint64_t released = 0; // When, in releases.
    };

    struct Cell {
        std::uint32_t slots = 0; // That have it.
        std::uint32_t running = 0;
    };

    [[nodiscard]] bool can_use(Hit const& hit, FirstPosition const& first_position) const;
    void hold(std::uint32_t cell, bool running);
    void drop(std::uint32_t cell, bool running);
    void run(Slot& slot);
    void shorten(std::uint32_t slot, std::uint32_t length);
    void forget_beginnings_of(std::uint32_t slot);
    [[nodiscard]] std::optional<std::uint32_t> empty_slot() const;
    [[nodiscard]] std::optional<std::uint32_t> least_recent() const;

    CacheKind kind_;
    std::vector<Slot> slots_;
    std::vector<Cell> cells_;
    std::vector<std::uint32_t> free_;
    std::uint32_t running_cells_ = 0;
    std::uint64_t releases_ = 0;
    std::vector<CacheChange> changes_;
};

} // namespace exo::engine
