// SPDX-License-Identifier: Apache-2.0
//
// What a node's flags say of instances, made fit for one model. Pure.
#pragma once

#include "model/card.hpp"
#include "model/settings.hpp"

#include <span>

namespace exo::node {

// `defaults`, with the full id of their draft model. It is left out where it cannot serve: no model
// of `known` has that name, or `card` has another vocabulary or is no larger. A draft that a
// request asks for is another matter: it is tried, and refused with the reason.
[[nodiscard]] model::InstanceSettings settings_for(
    model::ModelCard const& card,
    model::InstanceSettings defaults,
    std::span<model::ModelCard const> known
);

} // namespace exo::node
