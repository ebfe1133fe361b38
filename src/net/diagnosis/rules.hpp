// SPDX-License-Identifier: Apache-2.0
//
// The rules of a diagnosis, each of which appends what it finds; judge() puts them together. Inside
// of net/diagnosis.
#pragma once

#include "net/diagnosis/diagnosis.hpp"

#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace exo::net::rules {

using Findings = std::vector<Finding>;

// multicast_rules.cpp
void discovery_off(Situation const& situation, Findings& to);
void no_interface(Situation const& situation, Findings& to);
void cannot_send(Situation const& situation, Findings& to);
void not_returned(Situation const& situation, Findings& to);
void blocked(Situation const& situation, Findings& to);
void silent(Situation const& situation, Findings& to);
void left_out(Situation const& situation, Findings& to);
void heard(Situation const& situation, Findings& to);

// dial_rules.cpp
void unreachable(Situation const& situation, Findings& to);

// peer_rules.cpp
void same_key(Situation const& situation, Findings& to);
void only_loopback(Situation const& situation, Findings& to);
void other_network(Situation const& situation, Findings& to);
void other_version(Situation const& situation, Findings& to);
void refused(Situation const& situation, Findings& to);
void missing_links(Situation const& situation, Findings& to);
void behind_nat(Situation const& situation, Findings& to);
void company(Situation const& situation, Findings& to);

// ---- what they share

// A remedy for what macOS keeps from programs without saying so.
constexpr char const* local_network_permission =
    "System Settings > Privacy & Security > Local Network: switch it on for the program that "
    "started exo (Terminal, or the app); after a restart of macOS off and on again";

[[nodiscard]] inline bool is_isolated(Situation const& situation) {
    return situation.network.connections.empty();
}

// The Host met our own key there, and it was another process (B078).
[[nodiscard]] inline bool is_twin(DialFacts const& dial) {
    return dial.error.find("has the identity of this one") != std::string::npos;
}

// Worse when it may be why there is nobody.
[[nodiscard]] inline Severity
if_isolated(Situation const& situation, Severity when_isolated, Severity otherwise) {
    return is_isolated(situation) ? when_isolated : otherwise;
}

[[nodiscard]] inline bool has_lasted(Situation const& situation, TimePoint since) {
    return situation.now - since >= situation.patience;
}

// What the node that has the id says of itself; null if it has said nothing, or is no exo.
[[nodiscard]] Neighbour const* neighbour(Situation const& situation, PeerId const& peer);

// "attic (...KSUKPH5)", or the end of the id alone.
[[nodiscard]] std::string name_of(Situation const& situation, PeerId const& peer);

// "10.0.0.2", "10.0.0.2 and 10.0.0.3", "10.0.0.2, 10.0.0.3, 10.0.0.4 and 5 more".
[[nodiscard]] std::string listed(std::span<std::string const> words);

// "3 s", "5 min", "2 h".
[[nodiscard]] std::string time_text(Duration time);

// True if `ip` is in a subnet of the link.
[[nodiscard]] bool is_on_link(LinkFacts const& link, std::string_view ip);

[[nodiscard]] bool is_address_of(LinkFacts const& link, std::string_view ip);

// Other machines may be behind it.
[[nodiscard]] bool is_network(LinkFacts const& link);

// "10.77.0.2:4001", "[fe80::1%eth0]:4001"; another kind of address as it is.
[[nodiscard]] std::string host_and_port(Multiaddr const& address);

// Appends at most findings_of_a_kind_max of `found`, and one that counts the rest.
void append_some(Findings& to, Findings found);

} // namespace exo::net::rules
