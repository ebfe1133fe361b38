// SPDX-License-Identifier: Apache-2.0
//
// What the ranks find out about their links when a group has formed, before its first request:
// latency and bandwidth of each pair, from a few messages of the group itself (so with its cipher),
// some tens of milliseconds in all. In each round every rank is busy with one other at most. Then
// all are told everything, so that all choose alike (schedules/choice.hpp).
#pragma once

#include "collective/group.hpp"
#include "collective/schedules/choice.hpp"

#include <optional>
#include <vector>

namespace exo::collective {

// Collective. `within_machine` by rank, as seen from here: such links are not measured. Errors:
// those of the group, and conflict when the ranks were asked for different things.
[[nodiscard]] Result<Links>
measure_links(Group& group, std::vector<bool> const& within_machine, Wish const& wish);

// Whom a rank measures with in a round, if anyone; in rounds 0 .. rounds_of(size) - 1 it meets
// every other once.
[[nodiscard]] std::uint32_t rounds_of(std::uint32_t size);
[[nodiscard]] std::optional<std::uint32_t>
partner_of(std::uint32_t rank, std::uint32_t size, std::uint32_t round);

} // namespace exo::collective
