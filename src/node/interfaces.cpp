// SPDX-License-Identifier: Apache-2.0
#include "node/interfaces.hpp"

#include "net/interfaces/scan.hpp"

namespace exo::node {

std::vector<model::NetworkInterface> reachable_interfaces(std::span<net::Interface const> interfaces
) {
    std::vector<model::NetworkInterface> result;
    std::vector<model::NetworkInterface> tunnels;
    for (auto const& interface : interfaces) {
        bool const is_inner = interface.kind == net::InterfaceKind::loopback ||
                              interface.kind == net::InterfaceKind::container;
        for (auto const& address : interface.addresses) {
            if (!interface.is_up || is_inner || address.ip.needs_zone()) {
                continue;
            }
            auto& into = interface.kind == net::InterfaceKind::vpn ? tunnels : result;
            into.push_back(
                {.name = interface.name,
                 .ip_address = address.text,
                 .interface_type = net::interface_type(interface.kind)}
            );
        }
    }
    result.insert(result.end(), tunnels.begin(), tunnels.end());
    return result;
}

std::vector<model::NetworkInterface> network_interfaces() {
    auto const found = net::scan_interfaces();
    return found ? reachable_interfaces(*found) : std::vector<model::NetworkInterface>();
}

} // namespace exo::node
