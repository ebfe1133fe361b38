// SPDX-License-Identifier: Apache-2.0
//
// This machine's network interfaces in the words of the model.
#pragma once

#include "model/node_info.hpp"
#include "net/interfaces/interface.hpp"

#include <span>
#include <vector>

namespace exo::node {

// One entry an address at which other machines may reach this one: of interfaces that are up,
// without loopback, link-local IPv6 and the inner bridges of containers and virtual machines. Real
// interfaces come before tunnels.
[[nodiscard]] std::vector<model::NetworkInterface>
reachable_interfaces(std::span<net::Interface const> interfaces);

// The same of this machine, now; empty if the system does not tell.
[[nodiscard]] std::vector<model::NetworkInterface> network_interfaces();

} // namespace exo::node
