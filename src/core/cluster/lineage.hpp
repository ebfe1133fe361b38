// SPDX-License-Identifier: Apache-2.0
//
// Questions to a log's lineage: which sessions it went through (specs/cluster.md section 0).
#pragma once

#include "model/state.hpp"

#include <optional>

namespace exo::cluster {

// The session that State follows; empty before the first SessionStarted.
[[nodiscard]] std::optional<model::Session> current_session(model::State const& state);

// The last applied event; the default Position (index -1) when there is none.
[[nodiscard]] model::Position position(model::State const& state);

// True if this log went through `position`: its session is here and its index within that session's
// range. The default Position is in every lineage.
[[nodiscard]] bool in_lineage(model::State const& state, model::Position const& position);

} // namespace exo::cluster
