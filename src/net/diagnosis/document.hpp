// SPDX-License-Identifier: Apache-2.0
//
// A diagnosis as JSON: the answer of GET /network/diagnosis, and of `exo doctor --json`. Pure.
//
// Names are in snake_case, times in seconds until now. Texts of others are as they came: who writes
// it down must stand bytes that are no UTF-8.
#pragma once

#include "net/diagnosis/diagnosis.hpp"

#include <nlohmann/json_fwd.hpp>

#include <span>

namespace exo::net {

// {node_id, isolated, listen, interfaces, peers, refused, announced, findings}
[[nodiscard]] nlohmann::json
diagnosis_document(Situation const& situation, std::span<Finding const> findings);

// Two of its parts, for a look without a node.
[[nodiscard]] nlohmann::json interfaces_document(std::span<LinkFacts const> links, TimePoint now);
[[nodiscard]] nlohmann::json findings_document(std::span<Finding const> findings);

} // namespace exo::net
