// SPDX-License-Identifier: Apache-2.0
#include "engine/batch/cache_index.hpp"

#include "base/assert.hpp"
#include "engine/draft/common_beginning.hpp"

#include <algorithm>
#include <numeric>

namespace exo::engine {

CacheIndex::CacheIndex(std::uint32_t slots, std::uint32_t cells)
    : slots_(slots)
    , cells_(cells)
    , free_(cells) {
    std::iota(free_.rbegin(), free_.rend(), 0u);
}

CacheIndex::Hit
CacheIndex::find(std::span<std::int32_t const> tokens, FirstPosition const& first_position) const {
    Hit best;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        Hit const hit{i, common_beginning(slots_[i].tokens, tokens)};
        // Of two the one that needs no copy.
        bool const better =
            hit.tokens > best.tokens || (hit.tokens > 0 && hit.tokens == best.tokens &&
                                         slots_[best.slot].running && !slots_[i].running);
        if (better && can_use(hit, first_position)) {
            best = hit;
        }
    }
    return best;
}

// To go on where a slot ends is always possible: what is in the window of its last token stays.
bool CacheIndex::can_use(Hit const& hit, FirstPosition const& first_position) const {
    if (hit.tokens == slots_[hit.slot].tokens.size()) {
        return true;
    }
    if (!kind_.cuttable || kind_.window == 0) {
        return kind_.cuttable;
    }
    auto const needed_from = hit.tokens > kind_.window ? hit.tokens - kind_.window : 0;
    return first_position(hit.slot) <= static_cast<std::int32_t>(needed_from);
}

std::uint32_t CacheIndex::take(Hit const& hit) {
    bool const found = hit.tokens > 0;
    auto const whole = found && slots_[hit.slot].tokens.size() == hit.tokens;
    auto const place = empty_slot();
    auto const oldest = least_recent();
    // The slot itself goes on where all of it is used, or where it would have to go anyway.
    if (found && !slots_[hit.slot].running && (whole || (!place && oldest == hit.slot))) {
        shorten(hit.slot, hit.tokens);
        run(slots_[hit.slot]);
        return hit.slot;
    }
    EXO_ASSERT(place || oldest);
    auto const slot = place ? *place : *oldest;
    shorten(slot, 0);
    if (found) {
        // A memory that cannot be cut is copied as a whole, in llama.cpp's words: up to the end.
        auto const to = kind_.cuttable ? static_cast<std::int32_t>(hit.tokens) : -1;
        changes_.push_back(CacheCopy{.sequence = slot, .source = hit.slot, .to = to});
        auto const& source = slots_[hit.slot];
        slots_[slot].tokens.assign(source.tokens.begin(), source.tokens.begin() + hit.tokens);
        slots_[slot].cells.assign(source.cells.begin(), source.cells.begin() + hit.tokens);
        for (auto const cell : slots_[slot].cells) {
            hold(cell, false);
        }
    }
    run(slots_[slot]);
    return slot;
}

void CacheIndex::append(std::uint32_t slot, std::span<std::int32_t const> tokens) {
    EXO_ASSERT(slots_[slot].running && tokens.size() <= free_.size());
    for (auto const token : tokens) {
        auto const cell = free_.back();
        free_.pop_back();
        slots_[slot].tokens.push_back(token);
        slots_[slot].cells.push_back(cell);
        hold(cell, true);
    }
}

void CacheIndex::cut(std::uint32_t slot, std::uint32_t length) {
    EXO_ASSERT(slots_[slot].running);
    EXO_ASSERT(kind_.cuttable || length == slots_[slot].tokens.size());
    shorten(slot, length);
}

void CacheIndex::release(std::uint32_t slot) {
    EXO_ASSERT(slots_[slot].running);
    for (auto const cell : slots_[slot].cells) {
        if (--cells_[cell].running == 0) {
            --running_cells_;
        }
    }
    slots_[slot].running = false;
    slots_[slot].released = ++releases_;
    if (kind_.cuttable && kind_.window == 0) { // Else the shorter one may be of use of its own.
        forget_beginnings_of(slot);
    }
}

// What is remembered only of the beginning of this slot is remembered twice.
void CacheIndex::forget_beginnings_of(std::uint32_t slot) {
    auto const& all = slots_[slot].tokens;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        auto const& other = slots_[i];
        if (i != slot && !other.running &&
            common_beginning(other.tokens, all) == other.tokens.size()) {
            shorten(i, 0);
        }
    }
}

void CacheIndex::make_room(std::uint32_t cells) {
    while (free_.size() < cells) {
        auto const oldest = least_recent();
        EXO_ASSERT(oldest);
        shorten(*oldest, 0);
    }
}

void CacheIndex::clear() {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        EXO_ASSERT(!slots_[i].running);
        shorten(i, 0);
    }
    changes_.clear();
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        changes_.push_back(CacheRemoval{.sequence = i});
    }
}

std::uint32_t CacheIndex::cells_to_gain(Hit const& hit) const {
    auto const cells = std::span(slots_[hit.slot].cells).first(hit.tokens);
    return static_cast<std::uint32_t>(std::ranges::count_if(cells, [&](std::uint32_t cell) {
        return cells_[cell].running == 0;
    }));
}

void CacheIndex::hold(std::uint32_t cell, bool running) {
    ++cells_[cell].slots;
    if (running && cells_[cell].running++ == 0) {
        ++running_cells_;
    }
}

void CacheIndex::drop(std::uint32_t cell, bool running) {
    if (running && --cells_[cell].running == 0) {
        --running_cells_;
    }
    if (--cells_[cell].slots == 0) {
        free_.push_back(cell);
    }
}

void CacheIndex::run(Slot& slot) {
    slot.running = true;
    for (auto const cell : slot.cells) {
        if (cells_[cell].running++ == 0) {
            ++running_cells_;
        }
    }
}

void CacheIndex::shorten(std::uint32_t slot, std::uint32_t length) {
    auto& own = slots_[slot];
    if (own.tokens.size() == length) {
        return;
    }
    for (auto i = length; i < own.cells.size(); ++i) {
        drop(own.cells[i], own.running);
    }
    own.tokens.resize(length);
    own.cells.resize(length);
    changes_.push_back(CacheRemoval{.sequence = slot, .from = static_cast<std::int32_t>(length)});
}

std::optional<std::uint32_t> CacheIndex::empty_slot() const {
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        if (!slots_[i].running && slots_[i].tokens.empty()) {
            return i;
        }
    }
    return std::nullopt;
}

// Of those that are only remembered.
std::optional<std::uint32_t> CacheIndex::least_recent() const {
    std::optional<std::uint32_t> oldest;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        auto const& slot = slots_[i];
        if (!slot.running && !slot.tokens.empty() &&
            (!oldest || slot.released < slots_[*oldest].released)) {
            oldest = i;
        }
    }
    return oldest;
}

} // namespace exo::engine
