// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/lineage.hpp"

#include <algorithm>

namespace exo::cluster {

using namespace model;

std::optional<Session> current_session(State const& state) {
    return state.lineage.empty() ? std::nullopt : std::optional(state.lineage.back().session);
}

Position position(State const& state) {
    auto const session = current_session(state);
    return session ? Position{.session = *session, .index = state.last_event_applied_idx}
                   : Position{};
}

bool in_lineage(State const& state, Position const& position) {
    if (position == Position{}) {
        return true;
    }
    auto const& lineage = state.lineage;
    auto const entry = std::ranges::find(lineage, position.session, &LineageEntry::session);
    if (entry == lineage.end()) {
        return false;
    }
    auto const next = std::next(entry);
    std::int64_t const last =
        next == lineage.end() ? state.last_event_applied_idx : next->first_index - 1;
    return entry->first_index <= position.index && position.index <= last;
}

} // namespace exo::cluster
