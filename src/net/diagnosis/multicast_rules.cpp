// SPDX-License-Identifier: Apache-2.0
//
// Does multicast leave, come back, and come in? One interface has a link for each address family;
// people think of interfaces, so findings name those.
#include "net/diagnosis/link_log.hpp"
#include "net/diagnosis/rules.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace exo::net::rules {
namespace {

std::string group_of(LinkFacts const& link) {
    return link.is_ip4 ? "224.0.0.251" : "ff02::fb";
}

// "eth0 (224.0.0.251 and ff02::fb) and wlan0 (224.0.0.251), UDP port 5353".
std::string tried(std::vector<LinkFacts> const& links) {
    std::map<std::string, std::vector<std::string>> groups;
    for (auto const& link : links) {
        if (link.packets_sent > 0 && is_network(link)) {
            groups[link.interface].push_back(group_of(link));
        }
    }
    std::vector<std::string> words;
    for (auto const& [interface, names] : groups) {
        words.push_back(fmt::format("{} ({})", interface, listed(names)));
    }
    return listed(words) + ", UDP port 5353";
}

// Both families of each interface, IPv4 first.
std::map<std::string, std::vector<LinkFacts const*>> by_interface(Situation const& situation) {
    std::map<std::string, std::vector<LinkFacts const*>> links;
    for (bool const is_ip4 : {true, false}) {
        for (auto const& link : situation.network.links) {
            if (link.is_ip4 == is_ip4) {
                links[link.interface].push_back(&link);
            }
        }
    }
    return links;
}

bool works(LinkFacts const& link) {
    return link.error.empty() && link.packets_sent > 0;
}

// The words of a refusal that only macOS' Local Network privacy gives for a multicast group.
bool is_refused_by_macos(Situation const& situation, LinkFacts const& link) {
    return situation.is_macos &&
           link.error.find(std::make_error_code(std::errc::host_unreachable).message()) !=
               std::string::npos;
}

// A machine with IPv4 working on an interface does not need its IPv6 too.
bool other_family_works(Situation const& situation, LinkFacts const& link) {
    return std::ranges::any_of(situation.network.links, [&](LinkFacts const& other) {
        return other.interface == link.interface && other.is_ip4 != link.is_ip4 && works(other);
    });
}

Finding cannot_send_on(Situation const& situation, LinkFacts const& link) {
    bool const by_macos = is_refused_by_macos(situation, link);
    bool const any_works = std::ranges::any_of(situation.network.links, works);
    Finding finding{
        .severity = any_works ? Severity::warning
                              : if_isolated(situation, Severity::error, Severity::warning),
        .code = by_macos ? "local_network_permission" : "multicast_cannot_send",
        .message = fmt::format(
            "multicast cannot be used on {} ({}, UDP port 5353): {}",
            link.interface,
            group_of(link),
            link.error
        ),
        .remedy = "let this machine's firewall pass UDP port 5353 out and in on that interface; "
                  "until then name a peer: exo --bootstrap-peers HOST:PORT",
    };
    if (other_family_works(situation, link)) {
        finding.severity = Severity::note;
    }
    if (by_macos) {
        finding.remedy = local_network_permission;
    } else if (link.error.find("bind") != std::string::npos) {
        finding.remedy = "another program holds UDP port 5353 for itself alone: stop it, or let it "
                         "share the port (ss -ulpn 'sport = 5353' names it)";
    }
    return finding;
}

} // namespace

void discovery_off(Situation const& situation, Findings& to) {
    if (situation.with_discovery) {
        return;
    }
    bool const is_alone = is_isolated(situation);
    to.push_back({
        .severity = is_alone ? Severity::warning : Severity::note,
        .code = "discovery_off",
        .message = "this node does not use multicast (--no-discovery): it meets those whose "
                   "addresses it was given, and whom they know",
        .remedy = is_alone ? "start it without --no-discovery, or name a node that runs: "
                             "--bootstrap-peers HOST:PORT"
                           : "",
    });
}

void no_interface(Situation const& situation, Findings& to) {
    if (!situation.with_discovery || std::ranges::any_of(situation.network.links, is_network) ||
        !has_lasted(situation, situation.started)) {
        return;
    }
    to.push_back({
        .severity = if_isolated(situation, Severity::error, Severity::warning),
        .code = "no_interface",
        .message = "this machine has no network interface that is up and can multicast",
        .remedy = "connect a cable or Wi-Fi and see 'ip address'; over a VPN without multicast "
                  "name a peer: exo --bootstrap-peers HOST:PORT",
    });
}

void cannot_send(Situation const& situation, Findings& to) {
    Findings found;
    for (auto const& link : situation.network.links) {
        if (!link.error.empty() && has_lasted(situation, link.since)) {
            found.push_back(cannot_send_on(situation, link));
        }
    }
    append_some(to, std::move(found));
}

// What the kernel brings back passes the same firewall as what others send.
void not_returned(Situation const& situation, Findings& to) {
    Findings found;
    for (auto const& [interface, links] : by_interface(situation)) {
        std::vector<std::string> groups;
        for (auto const* link : links) {
            bool const is_told = link->packets_looped > 0 || !link->heard.empty();
            if (works(*link) && !is_told && has_lasted(situation, link->since)) {
                groups.push_back(group_of(*link));
            }
        }
        if (groups.empty()) {
            continue;
        }
        found.push_back({
            .severity = groups.size() == links.size() ? Severity::warning : Severity::note,
            .code = "multicast_not_returned",
            .message = fmt::format(
                "on {} not even this machine's own multicast comes in ({}, UDP port 5353)",
                interface,
                listed(groups)
            ),
            .remedy = situation.is_macos
                          ? local_network_permission
                          : "this machine's firewall drops it: let UDP port 5353 in (ufw allow "
                            "5353/udp; firewall-cmd --add-service=mdns; see 'nft list ruleset')",
        });
    }
    append_some(to, std::move(found));
}

// An exo node that is connected over an interface answers by multicast each time it is asked.
void blocked(Situation const& situation, Findings& to) {
    if (!situation.with_discovery) {
        return; // Neither do those that it was made to meet, most likely.
    }
    for (auto const& link : situation.network.links) {
        if (!works(link) || link.heard.size() >= heard_max || !has_lasted(situation, link.since)) {
            continue;
        }
        std::set<std::string> mute;
        for (auto const& one : situation.network.connections) {
            bool const is_expected =
                has_lasted(situation, one.since) && !is_address_of(link, one.remote_ip) &&
                is_on_link(link, one.remote_ip) && neighbour(situation, one.peer) != nullptr;
            if (is_expected && !link.heard.contains(one.remote_ip)) {
                mute.insert(one.remote_ip);
            }
        }
        if (mute.empty()) {
            continue;
        }
        std::vector<std::string> const ips(mute.begin(), mute.end());
        to.push_back({
            .severity = Severity::warning,
            .code = "multicast_blocked",
            .message = fmt::format(
                "multicast does not get through on {}: {} {} connected, but never heard at {}, "
                "UDP port 5353",
                link.interface,
                listed(ips),
                ips.size() == 1 ? "is" : "are",
                group_of(link)
            ),
            .remedy =
                "let UDP port 5353 pass the firewalls of both machines and the switch or "
                "access point (client isolation off); until then keep --bootstrap-peers. Nothing, "
                "if it runs with --no-discovery",
        });
    }
}

void silent(Situation const& situation, Findings& to) {
    auto const& links = situation.network.links;
    bool const is_heard =
        std::ranges::any_of(links, [](LinkFacts const& link) { return !link.heard.empty(); });
    bool const has_asked = std::ranges::any_of(links, [&](LinkFacts const& link) {
        return works(link) && is_network(link) && has_lasted(situation, link.since);
    });
    if (!is_isolated(situation) || is_heard || !has_asked) {
        return;
    }
    auto const first = std::ranges::min(links, {}, &LinkFacts::since).since;
    to.push_back({
        .severity = Severity::warning,
        .code = "multicast_silent",
        .message = fmt::format(
            "nobody was heard by multicast in {}, on {}: it is dropped on the way, or nobody is "
            "there",
            time_text(situation.now - first),
            tried(links)
        ),
        .remedy = "let UDP port 5353 pass the firewalls and the switch or access point (client "
                  "isolation off), or name a peer: exo --bootstrap-peers HOST:PORT",
    });
}

void left_out(Situation const& situation, Findings& to) {
    if (situation.network.links_left_out > 0) {
        to.push_back({
            .severity = if_isolated(situation, Severity::warning, Severity::note),
            .code = "interfaces_left_out",
            .message = fmt::format(
                "exo speaks by multicast on {} of this machine's links and leaves out {}, bridges "
                "of "
                "containers first",
                situation.network.links.size(),
                situation.network.links_left_out
            ),
            .remedy = "take down bridges that nobody uses (docker network prune), or name a peer: "
                      "exo --bootstrap-peers HOST:PORT",
        });
    }
}

void heard(Situation const& situation, Findings& to) {
    for (auto const& [interface, links] : by_interface(situation)) {
        std::vector<std::string> ips;
        TimePoint latest{};
        for (auto const* link : links) {
            if (link->kind == InterfaceKind::loopback) {
                continue; // Another program of this machine.
            }
            for (auto const& [ip, last] : link->heard) {
                ips.push_back(ip);
                latest = std::max(latest, last);
            }
        }
        if (!ips.empty()) {
            to.push_back({
                .severity = Severity::ok,
                .code = "multicast_heard",
                .message = fmt::format(
                    "multicast was heard on {} from {}, last {} ago",
                    interface,
                    listed(ips),
                    time_text(situation.now - latest)
                ),
            });
        }
    }
}

} // namespace exo::net::rules
