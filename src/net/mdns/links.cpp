// SPDX-License-Identifier: Apache-2.0
#include "net/mdns/links.hpp"

#include "net/interfaces/reach.hpp"

#include <algorithm>
#include <utility>

namespace exo::net::mdns {
namespace {

void add_family(Links& links, Interface const& interface, bool is_ip4) {
    Link link{
        .name = interface.name,
        .index = interface.index,
        .kind = interface.kind,
        .is_ip4 = is_ip4,
    };
    for (auto const& address : interface.addresses) {
        if (address.ip.is_ip4() == is_ip4) {
            link.addresses.push_back(address);
        }
    }
    if (link.addresses.empty()) {
        return;
    }
    if (links.chosen.size() == links_max) {
        ++links.left_out;
        return;
    }
    links.chosen.emplace(LinkId(interface.index * 2 + (is_ip4 ? 0 : 1)), std::move(link));
}

} // namespace

Links choose_links(std::vector<Interface> interfaces) {
    std::erase_if(interfaces, [](Interface const& one) {
        bool const can_multicast = one.has_multicast || one.kind == InterfaceKind::loopback;
        return !one.is_up || !one.is_running || one.is_port || !can_multicast;
    });
    auto const worth = [](Interface const& one) {
        return std::pair(reach_through(one.kind, true), one.index);
    };
    std::ranges::sort(interfaces, {}, worth);
    Links links;
    for (auto const& interface : interfaces) {
        bool const is_loopback = interface.kind == InterfaceKind::loopback;
        if (!is_loopback || links.chosen.empty()) { // Loopback comes last.
            add_family(links, interface, true);
        }
        if (!is_loopback) {
            add_family(links, interface, false);
        }
    }
    return links;
}

bool came_by(
    Link const& link, Ip const& sender, unsigned zone, std::span<Interface const> interfaces
) {
    if (link.is_ip4) {
        return true; // The socket is told by IP_MULTICAST_ALL.
    }
    if (zone != 0) {
        return zone == link.index;
    }
    auto const* const interface = on_link(interfaces, sender);
    return interface == nullptr || interface->index == link.index;
}

} // namespace exo::net::mdns
