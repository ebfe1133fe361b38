// SPDX-License-Identifier: Apache-2.0
//
// Keeps the node in the network that the membership file names, also when `exo cluster` changes it
// while the node runs. Decides nothing: NetworkChoice does.
//
// Network thread; the file is small and local.
#pragma once

#include "base/time.hpp"
#include "node/network/network_choice.hpp"
#include "node/options.hpp"

#include <boost/asio/awaitable.hpp>

#include <functional>
#include <vector>

namespace exo::node {

class NetworkFollower {
public:
    // A look is one small file; people wait for what follows.
    static constexpr Duration look_interval = 1s;

    // Reads the file, and warns if it was open to others or the options name a namespace too.
    // Errors: invalid_argument (a bootstrap peer); those of the file.
    [[nodiscard]] static Result<NetworkFollower> create(NodeOptions const& options);

    [[nodiscard]] net::Psk psk() const;

    // For people: the namespace, or "private cluster 7f3a-09bc".
    [[nodiscard]] std::string network_name() const;

    // Those of the options, then those of the membership.
    [[nodiscard]] std::vector<net::Multiaddr> bootstrap() const;

    // For ever. Calls `apply` when psk() or bootstrap() have changed.
    boost::asio::awaitable<void> follow(std::function<void()> apply);

private:
    NetworkFollower(
        NodeOptions const& options, std::vector<net::Multiaddr> given, Membership membership
    );

    MembershipFile file_;
    std::string namespace_;
    std::vector<net::Multiaddr> given_;
    NetworkChoice choice_;
};

} // namespace exo::node
