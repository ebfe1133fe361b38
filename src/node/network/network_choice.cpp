// SPDX-License-Identifier: Apache-2.0
#include "node/network/network_choice.hpp"

#include <fmt/format.h>

namespace exo::node {
namespace {

std::string change_text(Membership const& from, Membership const& to) {
    if (!to) {
        return fmt::format(
            "left the private cluster {}; in the network of the namespace again",
            net::fingerprint(from->secret)
        );
    }
    auto const name = net::fingerprint(to->secret);
    if (!from) {
        return fmt::format("in the private cluster {} now", name);
    }
    if (from->secret == to->secret) {
        return fmt::format("the private cluster {} has other addresses", name);
    }
    return fmt::format("from the private cluster {} to {}", net::fingerprint(from->secret), name);
}

} // namespace

std::optional<NetworkChange> NetworkChoice::on_look(Result<MembershipFile::Look> const& look) {
    if (!look) {
        std::string text = look.error().text();
        if (text == trouble_) {
            return std::nullopt;
        }
        trouble_ = text;
        return NetworkChange{
            true, text + ". Until then this node stays in the network that it is in"
        };
    }
    trouble_.clear();
    if (look->membership == membership_) {
        return std::nullopt;
    }
    NetworkChange change{false, change_text(membership_, look->membership)};
    membership_ = look->membership;
    return change;
}

net::Psk psk_of(Membership const& membership, std::string_view network_namespace) {
    return membership ? membership->secret : net::psk_of_namespace(network_namespace);
}

} // namespace exo::node
