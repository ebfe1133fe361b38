// SPDX-License-Identifier: Apache-2.0
#include "net/dnssd/packet_guard.hpp"

#include "net/mdns/packet.hpp"

#include <algorithm>

namespace exo::net::dnssd {
namespace {

constexpr std::uint16_t type_cname = 5;

bool has_cname(std::vector<mdns::Record> const& records) {
    return std::ranges::any_of(records, [](auto const& one) { return one.type == type_cname; });
}

} // namespace

bool is_fit_for_avahi(BytesView packet) {
    auto const decoded = mdns::decode(packet);
    return decoded && !has_cname(decoded->answers) && !has_cname(decoded->authority) &&
           !has_cname(decoded->additional);
}

} // namespace exo::net::dnssd
