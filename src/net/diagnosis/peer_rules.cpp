// SPDX-License-Identifier: Apache-2.0
//
// Who is there: peers of our network, of others, strangers, and how they are connected.
#include "net/diagnosis/rules.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace exo::net::rules {
namespace {

// What is older has no part in what is wrong now.
constexpr Duration recent = 10min;

bool is_recent(Situation const& situation, TimePoint time) {
    return situation.now - time < recent;
}

// Other nodes that announce themselves now, in our network or in others.
std::vector<AnnouncedFacts> others_here(Situation const& situation, bool same_network) {
    auto others = situation.network.announced;
    std::erase_if(others, [&](AnnouncedFacts const& one) {
        bool const is_own = one.peer == situation.network.self.text();
        return is_own || one.gone || one.same_network != same_network;
    });
    return others;
}

// An address may be written with its zone.
bool is_same_ip(std::string_view a, std::string_view b) {
    auto const ip = Ip::parse(a);
    return ip && ip == Ip::parse(b);
}

// Of a node that is connected now, from before: it was in another network then, or we were. A
// handshake that began then may take until `settle` to fail.
bool was_let_in_later(Situation const& situation, RefusalFacts const& refused) {
    return std::ranges::any_of(situation.network.connections, [&](ConnectionFacts const& one) {
        auto const* const node = neighbour(situation, one.peer);
        auto const is_it = [&](std::string const& ip) { return is_same_ip(ip, refused.ip); };
        bool const is_its =
            is_it(one.remote_ip) || (node != nullptr && std::ranges::any_of(node->ips, is_it));
        return is_its && refused.last <= one.since + settle + 1s;
    });
}

std::string joined_remedy(Situation const& situation) {
    return fmt::format(
        "start both with the same --namespace (here: '{}'), or join both to one private cluster "
        "(exo cluster join TOKEN)",
        situation.network_name
    );
}

// A node is seen at an address.
struct Sighting {
    Neighbour const* seer;
    Ip ip;
    std::string text; // The address.
};

// The nodes that are seen at addresses that they do not know of, and by whom.
std::map<PeerId, std::vector<Sighting>> strange_sightings(Situation const& situation) {
    std::map<PeerId, std::vector<Sighting>> sightings;
    for (auto const& seer : situation.neighbours) {
        for (auto const& link : seer.links) {
            auto const* const seen = neighbour(situation, link.peer);
            auto const ip = Ip::parse(link.ip);
            bool const says_nothing = seen == nullptr || seen->ips.empty() || !ip ||
                                      ip->is_loopback() || ip->is_link_local();
            // An address of the seer: two nodes of one machine.
            auto const is_of = [&](Neighbour const& node) {
                return std::ranges::find(node.ips, link.ip) != node.ips.end();
            };
            if (!says_nothing && !is_of(*seen) && !is_of(seer)) {
                sightings[link.peer].push_back({&seer, *ip, link.ip});
            }
        }
    }
    return sightings;
}

// The host of a container, seen from within at its end of their bridge, which no node tells of. The
// usual size of such a network, for nodes tell no prefixes.
bool is_near(Sighting const& sighting) {
    constexpr unsigned inner_bits = 16;
    return std::ranges::any_of(sighting.seer->ips, [&](std::string const& text) {
        auto const own = Ip::parse(text);
        return own && own->is_ip4() && own->shares_prefix(sighting.ip, inner_bits);
    });
}

} // namespace

void same_key(Situation const& situation, Findings& to) {
    std::set<std::string> places;
    for (auto const& link : situation.network.links) {
        for (auto const& [address, last] : link.twins) {
            if (is_recent(situation, last)) {
                places.insert(host_and_port(address));
            }
        }
    }
    for (auto const& dial : situation.network.dials) {
        if (is_twin(dial)) {
            places.insert(host_and_port(dial.address));
        }
    }
    if (places.empty()) {
        return;
    }
    std::vector<std::string> const words(places.begin(), places.end());
    to.push_back({
        .severity = Severity::error,
        .code = "same_key",
        .message = fmt::format(
            "another node has this node's key ({}): {}",
            situation.network.self.text(),
            listed(words)
        ),
        .remedy = fmt::format(
            "its files were copied with the machine: on one of the two stop exo, remove {} and "
            "start it again",
            situation.key_file
        ),
    });
}

void only_loopback(Situation const& situation, Findings& to) {
    auto const& listen = situation.network.listen;
    bool const only = !listen.empty() && std::ranges::all_of(listen, [](Multiaddr const& address) {
        auto const ip = ip_of(address);
        return ip && ip->is_loopback();
    });
    if (only) {
        to.push_back({
            .severity = Severity::error,
            .code = "only_loopback",
            .message = fmt::format(
                "this node listens at {} only, which no other machine can reach",
                host_and_port(listen.front())
            ),
            .remedy = "listen on all addresses, or on that of a network",
        });
    }
}

void other_network(Situation const& situation, Findings& to) {
    Findings found;
    for (auto const& one : others_here(situation, false)) {
        found.push_back({
            .severity = if_isolated(situation, Severity::warning, Severity::note),
            .code = "other_network",
            .message = fmt::format(
                "{} on {} (exo {}) is there, but in another namespace or private cluster",
                one.name,
                one.interface,
                one.version
            ),
            .remedy = joined_remedy(situation),
        });
    }
    append_some(to, std::move(found));
}

void other_version(Situation const& situation, Findings& to) {
    Findings found;
    for (auto const& one : others_here(situation, true)) {
        if (one.version != situation.version) {
            found.push_back({
                .severity = if_isolated(situation, Severity::warning, Severity::note),
                .code = "other_version",
                .message = fmt::format(
                    "{} on {} runs exo {}, this node {}",
                    one.name,
                    one.interface,
                    one.version,
                    situation.version
                ),
                .remedy = "run the same version on all machines",
            });
        }
    }
    append_some(to, std::move(found));
}

void refused(Situation const& situation, Findings& to) {
    Findings found;
    for (auto const& one : situation.network.refusals) {
        if (!is_recent(situation, one.last) || was_let_in_later(situation, one)) {
            continue;
        }
        found.push_back({
            .severity = if_isolated(situation, Severity::warning, Severity::note),
            .code = "stranger_refused",
            .message = fmt::format(
                "{} was refused {} {}, last {} ago: {}",
                one.ip,
                one.count,
                one.count == 1 ? "time" : "times",
                time_text(situation.now - one.last),
                one.reason
            ),
            .remedy = "if it is one of yours: " + joined_remedy(situation),
        });
    }
    append_some(to, std::move(found));
}

void missing_links(Situation const& situation, Findings& to) {
    Findings found;
    for (auto const& link : situation.missing_links) {
        if (!has_lasted(situation, link.since)) {
            continue;
        }
        auto const from = name_of(situation, link.from);
        auto const to_name = name_of(situation, link.to);
        auto const time = time_text(situation.now - link.since);
        found.push_back({
            .severity = Severity::warning,
            .code = link.one_way ? "one_way_link" : "no_link",
            .message =
                link.one_way
                    ? fmt::format(
                          "{} sees {}, but not the other way round, for {}", from, to_name, time
                      )
                    : fmt::format(
                          "{} and {} have no connection with each other, for {}",
                          from,
                          to_name,
                          time
                      ),
            .remedy = "one of the two must be able to dial the other: let exo's TCP port through "
                      "their firewalls, put them into one network; exo doctor there says more",
        });
    }
    append_some(to, std::move(found));
}

// An address that its owner does not know of was made on the way.
void behind_nat(Situation const& situation, Findings& to) {
    auto const sightings = strange_sightings(situation);
    std::map<PeerId, std::set<std::string>> seen_at;
    for (auto const& [peer, strange] : sightings) {
        for (auto const& one : strange) {
            if (!sightings.contains(one.seer->peer) || !is_near(one)) {
                seen_at[peer].insert(one.text);
            }
        }
    }
    Findings found;
    for (auto const& [peer, ips] : seen_at) {
        std::vector<std::string> const words(ips.begin(), ips.end());
        auto const& own = neighbour(situation, peer)->ips;
        bool const is_self = peer == situation.network.self;
        found.push_back({
            .severity = Severity::note,
            .code = "behind_nat",
            .message = fmt::format(
                "{} is behind NAT (WSL 2, a container): others see {}, its own addresses are {}",
                is_self ? "this node" : name_of(situation, peer),
                listed(words),
                listed(own)
            ),
            .remedy = "it can dial others, but others not it: give it the host's network (WSL 2: "
                      "networkingMode=mirrored; docker: --network host), or forward its port",
        });
    }
    append_some(to, std::move(found));
}

void company(Situation const& situation, Findings& to) {
    std::map<PeerId, std::set<std::string>> peers;
    for (auto const& one : situation.network.connections) {
        peers[one.peer].insert(one.remote_ip);
    }
    if (!peers.empty()) {
        std::vector<std::string> words;
        for (auto const& [peer, ips] : peers) {
            words.push_back(fmt::format("{} at {}", name_of(situation, peer), *ips.begin()));
        }
        to.push_back({
            .severity = Severity::ok,
            .code = "connected",
            .message = fmt::format(
                "{} {} connected: {}",
                peers.size(),
                peers.size() == 1 ? "peer" : "peers",
                listed(words)
            ),
        });
    } else if (!has_lasted(situation, situation.started)) {
        to.push_back({
            .severity = Severity::note,
            .code = "just_started",
            .message = fmt::format(
                "this node has started {} ago and has met no other yet",
                time_text(situation.now - situation.started)
            ),
            .remedy = "ask again in a moment",
        });
    } else {
        to.push_back({
            .severity = Severity::warning,
            .code = "isolated",
            .message = fmt::format(
                "isolated: no other node for {}; this one keeps looking",
                time_text(situation.now - situation.started)
            ),
            .remedy = fmt::format(
                "start exo on another machine of this network, in the same namespace ('{}'); "
                "what else was found is said below",
                situation.network_name
            ),
        });
    }
}

} // namespace exo::net::rules
