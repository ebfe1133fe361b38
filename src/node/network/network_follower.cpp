// SPDX-License-Identifier: Apache-2.0
#include "node/network/network_follower.hpp"

#include "base/log.hpp"
#include "node/scope.hpp"

#include <fmt/format.h>

#include <string_view>

namespace exo::node {
namespace {

std::string_view without_blanks(std::string_view text) {
    constexpr auto blanks = " \t\r\n";
    auto const first = text.find_first_not_of(blanks);
    return first == text.npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

// Whether it says all that a dial needs: an IP address or name, and a port.
bool can_be_dialled(net::Multiaddr const& address) {
    auto const target = address.tcp_target();
    return target && target->port != 0;
}

// As people write a list: with blanks after its commas, perhaps with a comma at its end.
Result<std::vector<net::Multiaddr>> parse_all(std::vector<std::string> const& texts) {
    std::vector<net::Multiaddr> addresses;
    for (auto const& text : texts) {
        auto const word = without_blanks(text);
        if (word.empty()) {
            continue;
        }
        auto const address = net::parse_address(word);
        if (!address) {
            return Error(Errc::invalid_argument, "--bootstrap-peers: " + address.error().text());
        }
        if (!can_be_dialled(*address)) {
            return Error(
                Errc::invalid_argument,
                fmt::format(
                    "--bootstrap-peers: '{}' names no TCP port that can be dialled; write "
                    "host:port, or a multiaddr such as /ip4/10.0.0.1/tcp/4001",
                    word
                )
            );
        }
        addresses.push_back(*address);
    }
    return addresses;
}

void warn_if_open(MembershipFile const& file, Result<MembershipFile::Look> const& look) {
    if (look && look->was_open) {
        log::warning("node", "{}", file.was_open_text());
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
