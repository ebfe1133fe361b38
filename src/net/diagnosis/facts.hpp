// SPDX-License-Identifier: Apache-2.0
//
// What this node has seen of its network, gathered by those who see it (the Host, mDNS, DNS-SD):
// the material of a diagnosis. Plain data, bounded by those who fill it; times are of the steady
// clock.
#pragma once

#include "base/time.hpp"
#include "net/interfaces/interface.hpp"
#include "net/wire/multiaddr.hpp"
#include "net/wire/peer_id.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace exo::net {

// One interface and address family on which we speak mDNS.
struct LinkFacts {
    std::string interface;
    InterfaceKind kind = InterfaceKind::unknown;
    bool is_ip4 = true;
    std::vector<InterfaceAddress> addresses;
    TimePoint since;
    std::uint64_t packets_sent = 0;
    // Of ours, brought back by this machine's own kernel: they left the socket, and the firewall
    // here lets them in. It does not show that they left the machine.
    std::uint64_t packets_looped = 0;
    std::map<std::string, TimePoint> heard; // Other machines, by address: when last.
    // Addresses that another node announces under our own peer id, and when last.
    std::map<Multiaddr, TimePoint> twins;
    std::string error; // Of the socket or the last sending; empty: none.
};

// An address that was dialled, and how that went last.
struct DialFacts {
    Multiaddr address;
    std::optional<PeerId> peer; // Of the address, or who answered.
    bool given = false;         // By people (bootstrap peers).
    bool connected = false;     // Its peer is, now, by whatever address.
    bool reached = false;       // It has led to its peer once.
    std::uint32_t failures = 0; // In a row.
    std::string error;          // Of the last failure; empty: none.
};

// Strangers that were shown out, by address.
struct RefusalFacts {
    std::string ip;
    std::string reason; // The last one.
    std::uint64_t count = 0;
    TimePoint last;
};

// A node that announces itself by DNS-SD, whether or not we can talk to it.
struct AnnouncedFacts {
    std::string name; // Of the service instance.
    std::string peer; // TXT device_id; as it says, not checked.
    std::string version;
    bool same_network = false; // The hash of its namespace or secret is ours.
    std::string interface;
    std::vector<std::string> addresses; // TXT: multiaddrs, with /p2p.
    TimePoint since;
    std::optional<TimePoint> gone; // It said good-bye, or its records ran out.
};

struct ConnectionFacts {
    std::uint64_t id = 0; // Counts up from 1 in the life of the process.
    PeerId peer;
    std::string remote_ip;
    std::uint16_t remote_tcp_port = 0;
    bool outbound = false;
    TimePoint since;
};

struct NetworkFacts {
    PeerId self;
    std::vector<Multiaddr> listen; // As bound.
    std::vector<LinkFacts> links;
    std::size_t links_left_out = 0; // On which mDNS does not speak, for there are too many.
    std::vector<DialFacts> dials;
    std::vector<RefusalFacts> refusals;
    std::vector<AnnouncedFacts> announced;
    std::vector<ConnectionFacts> connections;
};

} // namespace exo::net
