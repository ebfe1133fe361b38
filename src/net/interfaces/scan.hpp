// SPDX-License-Identifier: Apache-2.0
//
// Asks the system for its network interfaces. Well under a millisecond, without waiting for the
// network, so the network thread may call it.
#pragma once

#include "base/result.hpp"
#include "net/interfaces/interface.hpp"

#include <optional>
#include <string>
#include <vector>

namespace exo::net {

// All of them, also those that are down; in the order of their indices. Error: io.
[[nodiscard]] Result<std::vector<Interface>> scan_interfaces();

// The local address that the system would send from to reach `ip` (by its routes; nothing is
// sent). Empty: there is no way.
[[nodiscard]] std::optional<std::string> local_ip_towards(std::string const& ip);

} // namespace exo::net
