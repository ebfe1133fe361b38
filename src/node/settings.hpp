// SPDX-License-Identifier: Apache-2.0
//
// What a node's flags say of instances, made fit for one model. Pure.
#pragma once

#include "base/result.hpp"
#include "model/card.hpp"
#include "model/settings.hpp"

#include <span>

namespace exo::node {

// `defaults`, with the full id of their draft model. It is left out where it cannot serve: no model
// of `known` has that name, or `card` has another vocabulary or is no larger. A draft that a
// request asks for is another matter: it is refused with the reason, or tried.
[[nodiscard]] model::InstanceSettings settings_for(
    model::ModelCard const& card,
    model::InstanceSettings defaults,
    std::span<model::ModelCard const> known
);

// The draft model that a request for `card` names, as the user wrote it. Errors: invalid_argument
// (there is none of that name, or its vocabulary is plainly another one).
[[nodiscard]] Result<model::ModelId> draft_for(
    model::ModelCard const& card,
    model::ModelId const& draft,
    std::span<model::ModelCard const> known
);

} // namespace exo::node
