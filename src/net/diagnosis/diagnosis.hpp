// SPDX-License-Identifier: Apache-2.0
//
// Why do they not find each other? From what a node has seen of its network to findings, each with
// its remedy. Pure: the node gathers the facts (Host::facts, LinkWatch) and `exo doctor` a few of
// its own.
//
// A finding that time alone can make true or false is not said before `settle`: a node that has
// just started, or has just met a peer, is not ill.
#pragma once

#include "net/diagnosis/facts.hpp"

#include <string>
#include <vector>

namespace exo::net {

// So long a node, a link or a connection needs until its silence says something: discovery asks at
// 0, 1, 3 and 7 s, and an address that does not answer takes 10 s to say so.
constexpr Duration settle = 10s;
// Of one kind; more are counted.
constexpr std::size_t findings_of_a_kind_max = 8;

enum class Severity { ok, note, warning, error };

[[nodiscard]] char const* to_string(Severity severity);

struct Finding {
    Severity severity = Severity::note;
    std::string code; // A name that stays: docs/howto/troubleshooting.md lists them.
    std::string message;
    std::string remedy; // Empty: nothing needs to be done.
    bool operator==(Finding const&) const = default;
};

// What a node says of itself to the others (gossip).
struct Neighbour {
    // A connection of it, with the address that it sees at the other end.
    struct Link {
        PeerId peer;
        std::string ip;
    };

    PeerId peer;
    std::string name;             // Of its machine.
    std::vector<std::string> ips; // Its own; without link-local IPv6 and inner bridges.
    std::vector<Link> links;
};

// Two nodes that we know, of which at least one does not see the other (LinkWatch).
struct MissingLink {
    PeerId from; // Sees `to`, unless neither sees the other.
    PeerId to;
    bool one_way = false;
    TimePoint since;
};

#ifdef __APPLE__
constexpr bool this_is_macos = true;
#else
constexpr bool this_is_macos = false;
#endif

struct Situation {
    NetworkFacts network;
    std::vector<Neighbour> neighbours; // With this node.
    std::vector<MissingLink> missing_links;
    std::string network_name; // The namespace or private cluster, for remedies.
    std::string version;      // Of this program.
    std::string key_file;     // Of this node.
    // Whether the node speaks multicast at all (not with --no-discovery).
    bool with_discovery = true;
    TimePoint started;
    TimePoint now;
    Duration patience = settle;
    bool is_macos = false; // this_is_macos, but for tests.
};

// Among equals in the order they had.
[[nodiscard]] std::vector<Finding> worst_first(std::vector<Finding> findings);

// The worst first; among equals in the order of docs/howto/troubleshooting.md. Never empty.
[[nodiscard]] std::vector<Finding> judge(Situation const& situation);

// Of multicast alone: what `exo doctor` hears when it has asked for `patience`. Connections, if it
// knows any, are those of the node of this machine.
[[nodiscard]] std::vector<Finding> judge_links(Situation const& situation);

} // namespace exo::net
