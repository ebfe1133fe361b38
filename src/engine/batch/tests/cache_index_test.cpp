// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "engine/batch/cache_index.hpp"
#include "engine/batch/tests/fake_cache.hpp"

#include <gtest/gtest.h>

namespace exo::engine {
namespace {

using Tokens = std::vector<std::int32_t>;
using Hit = CacheIndex::Hit;

std::int32_t all_there(std::uint32_t /*slot*/) {
    return 0;
}

// A sequence that began with nothing and was computed.
std::uint32_t run(CacheIndex& index, Tokens const& tokens) {
    auto const slot = index.take({});
    index.make_room(static_cast<std::uint32_t>(tokens.size()));
    index.append(slot, tokens);
    return slot;
}

TEST(CacheIndex, the_longest_common_beginning_is_found) {
    CacheIndex index(4, 100);
    (void)run(index, {1, 2, 3, 4});
    auto const longest = run(index, {1, 2, 3, 9, 9});
    EXPECT_EQ(index.find(Tokens{1, 2, 3, 9, 5}, all_there), (Hit{longest, 4}));
    EXPECT_EQ(index.find(Tokens{2, 3}, all_there), Hit{});
}

TEST(CacheIndex, an_ended_sequence_is_remembered_and_taken_over_without_a_copy) {
    CacheIndex index(4, 100);
    auto const slot = run(index, {1, 2, 3});
    index.release(slot);
    EXPECT_EQ(index.cells_for_running(), 100u);
    EXPECT_EQ(index.take(index.find(Tokens{1, 2, 3, 4}, all_there)), slot);
    EXPECT_EQ(index.cells_for_running(), 97u);
    EXPECT_TRUE(index.take_changes().empty());
}

TEST(CacheIndex, a_running_sequence_shares_its_beginning) {
    CacheIndex index(4, 100);
    auto const first = run(index, {1, 2, 3});
    auto const second = index.take(index.find(Tokens{1, 2, 7}, all_there));
    EXPECT_NE(second, first);
    EXPECT_EQ(index.cells_free(), 97u);
    EXPECT_EQ(index.take_changes(), (std::vector<CacheChange>{CacheCopy{second, first, 2}}));
    index.release(first);
    EXPECT_EQ(index.cells_for_running(), 98u);
}

TEST(CacheIndex, the_least_recently_used_goes_first) {
    CacheIndex index(3, 10);
    auto const a = run(index, {1, 1, 1});
    auto const b = run(index, {2, 2, 2});
    auto const c = run(index, {3, 3, 3});
    index.release(b);
    index.release(a);
    index.make_room(3);
    EXPECT_EQ(index.take_changes(), (std::vector<CacheChange>{CacheRemoval{b}}));
    EXPECT_EQ(index.find(Tokens{1, 1, 1, 1}, all_there), (Hit{a, 3}));
    index.release(c);
    index.make_room(10);
    EXPECT_EQ(index.take_changes(), (std::vector<CacheChange>{CacheRemoval{a}, CacheRemoval{c}}));
}

TEST(CacheIndex, without_a_free_slot_the_oldest_memory_gives_its_place_and_its_beginning) {
    CacheIndex index(1, 10);
    index.release(run(index, {1, 2, 3}));
    EXPECT_EQ(index.take(index.find(Tokens{1, 2, 8}, all_there)), 0u);
    EXPECT_EQ(index.take_changes(), (std::vector<CacheChange>{CacheRemoval{0, 2}}));
    EXPECT_EQ(index.cells_free(), 8u);
}

TEST(CacheIndex, what_a_longer_memory_begins_with_is_not_remembered_twice) {
    CacheIndex index(3, 10);
    auto const a = run(index, {1, 2});
    auto const b = index.take(index.find(Tokens{1, 2, 3}, all_there));
    index.append(b, Tokens{3});
    (void)index.take_changes();
    index.release(a);
    index.release(b);
    EXPECT_EQ(index.take_changes(), (std::vector<CacheChange>{CacheRemoval{a}}));
    EXPECT_EQ(index.cells_free(), 7u);
}

TEST(CacheIndex, a_memory_that_cannot_be_cut_is_used_as_a_whole_or_not_at_all) {
    CacheIndex index(3, 10);
    index.set_kind({.cuttable = false});
    auto const slot = run(index, {1, 2, 3});
    EXPECT_EQ(index.find(Tokens{1, 2, 4}, all_there), Hit{});
    auto const hit = index.find(Tokens{1, 2, 3, 4}, all_there);
    EXPECT_EQ(hit, (Hit{slot, 3}));
    auto const other = index.take(hit);
    EXPECT_EQ(index.take_changes(), (std::vector<CacheChange>{CacheCopy{other, slot, -1}}));
}

TEST(CacheIndex, a_window_that_has_moved_on_cannot_be_gone_back_to) {
    CacheIndex index(3, 100);
    index.set_kind({.window = 4});
    auto const slot = run(index, Tokens(20, 7));
    auto const from = [](std::int32_t position) { return [=](std::uint32_t) { return position; }; };
    EXPECT_EQ(index.find(Tokens(10, 7), from(6)), (Hit{slot, 10}));
    EXPECT_EQ(index.find(Tokens(10, 7), from(7)), Hit{});
    EXPECT_EQ(index.find(Tokens(3, 7), from(1)), Hit{});
    EXPECT_EQ(index.find(Tokens(3, 7), from(0)), (Hit{slot, 3}));
    EXPECT_EQ(index.find(Tokens(25, 7), from(16)), (Hit{slot, 20})); // Where it goes on anyway.
}

TEST(CacheIndex, clearing_empties_every_slot) {
    CacheIndex index(2, 10);
    index.release(run(index, {1, 2, 3}));
    index.clear();
    EXPECT_EQ(index.cells_free(), 10u);
    EXPECT_EQ(index.take_changes(), (std::vector<CacheChange>{CacheRemoval{0}, CacheRemoval{1}}));
}

// Random lives of sequences, against a cache that keeps cells and sequences as llama.cpp does.
TEST(CacheIndex, it_always_knows_what_the_cache_holds) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        Random random(seed);
        bool const cuttable = random.chance(3, 4);
        std::uint32_t const slots = 1 + static_cast<std::uint32_t>(random.below(5));
        CacheIndex index(slots, 40);
        index.set_kind({.cuttable = cuttable});
        FakeCache cache(40);
        std::vector<std::uint32_t> running;
        for (int round = 0; round < 100; ++round) {
            std::vector<PlanToken> computed;
            auto const pick = running.empty() ? 0 : random.below(running.size());
            if (running.size() < slots && random.chance(1, 2)) {
                Tokens prompt(1 + random.below(12));
                std::ranges::generate(prompt, [&] { return std::int32_t(random.below(2)); });
                auto const hit = index.find(prompt, all_there);
                auto const slot = index.take(hit);
                ASSERT_EQ(
                    Tokens(prompt.begin(), prompt.begin() + hit.tokens),
                    Tokens(index.tokens(slot).begin(), index.tokens(slot).end())
                );
                running.push_back(slot);
            } else if (!running.empty() && random.chance(1, 3)) {
                index.release(running[pick]);
                running.erase(running.begin() + std::ptrdiff_t(pick));
            } else if (!running.empty() && cuttable && random.chance(1, 4)) {
                auto const length = index.tokens(running[pick]).size();
                index.cut(running[pick], std::uint32_t(length - random.below(length + 1)));
            } else if (!running.empty()) {
                auto const most = std::min(5u, index.cells_for_running());
                auto const count = static_cast<std::uint32_t>(random.below(most + 1));
                auto const slot = running[pick];
                Tokens tokens(count);
                std::ranges::generate(tokens, [&] { return std::int32_t(random.below(2)); });
                for (std::uint32_t i = 0; i < count; ++i) {
                    auto const position = std::int32_t(index.tokens(slot).size() + i);
                    computed.push_back({tokens[i], position, slot});
                }
                index.make_room(count);
                index.append(slot, tokens);
            }
            cache.apply({.changes = index.take_changes(), .tokens = computed});
            ASSERT_FALSE(HasFatalFailure()) << "seed " << seed;
            ASSERT_EQ(cache.free_cells(), index.cells_free()) << "seed " << seed;
            for (std::uint32_t slot = 0; slot < slots; ++slot) {
                auto const known = index.tokens(slot);
                ASSERT_EQ(cache.text(slot), Tokens(known.begin(), known.end())) << "seed " << seed;
            }
        }
    }
}

} // namespace
} // namespace exo::engine
