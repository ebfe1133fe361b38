// SPDX-License-Identifier: Apache-2.0
#include "node/network/network_follower.hpp"

#include "base/log.hpp"
#include "node/scope.hpp"

namespace exo::node {
namespace {

Result<std::vector<net::Multiaddr>> parse_all(std::vector<std::string> const& texts) {
    std::vector<net::Multiaddr> addresses;
    for (auto const& text : texts) {
        auto const address = net::parse_address(text);
        if (!address) {
            return Error(Errc::invalid_argument, "--bootstrap-peers: " + address.error().text());
        }
        addresses.push_back(*address);
    }
    return addresses;
}

void warn_if_open(MembershipFile const& file, Result<MembershipFile::Look> const& look) {
    if (look && look->was_open) {
        log::warning(
            "node",
            "{} could be read by others of this machine. It is closed to them now; if someone may "
            "have read it, 'exo cluster rotate' makes a new secret",
            file.path().string()
        );
    }
}

} // namespace

NetworkFollower::NetworkFollower(
    NodeOptions const& options, std::vector<net::Multiaddr> given, Membership membership
)
    : file_(options.paths.cluster_token())
    , namespace_(options.network_namespace)
    , given_(std::move(given))
    , choice_(std::move(membership)) {}

Result<NetworkFollower> NetworkFollower::create(NodeOptions const& options) {
    auto given = parse_all(options.bootstrap_peers);
    if (!given) {
        return given.error();
    }
    MembershipFile const file(options.paths.cluster_token());
    auto look = file.load();
    if (!look) {
        return look.error();
    }
    warn_if_open(file, look);
    if (look->membership) {
        log::info("node", "in the private cluster {}", net::fingerprint(look->membership->secret));
        if (options.namespace_given) {
            log::warning(
                "node",
                "the namespace '{}' has no effect while this node is in a private cluster",
                options.network_namespace
            );
        }
    }
    return NetworkFollower(options, std::move(*given), std::move(look->membership));
}

net::Psk NetworkFollower::psk() const {
    return psk_of(choice_.membership(), namespace_);
}

std::string NetworkFollower::network_name() const {
    auto const& membership = choice_.membership();
    return membership ? "private cluster " + net::fingerprint(membership->secret) : namespace_;
}

std::vector<net::Multiaddr> NetworkFollower::bootstrap() const {
    auto addresses = given_;
    if (auto const& membership = choice_.membership()) {
        addresses.insert(
            addresses.end(), membership->addresses.begin(), membership->addresses.end()
        );
    }
    return addresses;
}

asio::awaitable<void> NetworkFollower::follow(std::function<void()> apply) {
    while (true) {
        co_await sleep_for(look_interval);
        auto const look = file_.load();
        warn_if_open(file_, look);
        auto const change = choice_.on_look(look);
        if (!change) {
            continue;
        }
        log::at(
            change->is_warning ? log::Level::warning : log::Level::info, "node", "{}", change->text
        );
        if (!change->is_warning) {
            apply();
        }
    }
}

} // namespace exo::node
