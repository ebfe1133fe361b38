// SPDX-License-Identifier: Apache-2.0
//
// Ids that follow from other ids, so that a command executed twice (in two lineages) makes the same
// things (specs/cluster.md C2).
#pragma once

#include "model/ids.hpp"

#include <string>
#include <string_view>

namespace exo::cluster {

// 128 bits of SHA-256 over `kind` and `from`, in the form of a UUID (version 8, RFC 9562).
[[nodiscard]] std::string derived_uuid(std::string_view kind, std::string_view from);

} // namespace exo::cluster
