// SPDX-License-Identifier: Apache-2.0
//
// Which network this node is to be in, decided from what its membership file says now and said
// before. Pure; NetworkFollower carries it out.
#pragma once

#include "node/network/membership.hpp"

#include <string>

namespace exo::node {

// Something that changed, for the log and the host.
struct NetworkChange {
    bool is_warning = false; // Nothing is to be done, but someone should know.
    std::string text;
    bool operator==(NetworkChange const&) const = default;
};

class NetworkChoice {
public:
    explicit NetworkChoice(Membership at_start)
        : membership_(std::move(at_start)) {}

    [[nodiscard]] Membership const& membership() const { return membership_; }

    // Takes what the file says now; empty if that is nothing new. A file that cannot be read leaves
    // the node where it is: an administrator's slip or a full disk must neither break up a cluster
    // nor take a node into a public network.
    [[nodiscard]] std::optional<NetworkChange> on_look(Result<MembershipFile::Look> const& look);

private:
    Membership membership_;
    std::string trouble_; // What could not be read, as told last.
};

// Secret over namespace: who has been invited has said which network it means.
[[nodiscard]] net::Psk psk_of(Membership const& membership, std::string_view network_namespace);

} // namespace exo::node
