// SPDX-License-Identifier: Apache-2.0
//
// Who else is on the local network: libp2p's mDNS (`_p2p._udp.local`, specs/libp2p.md 10), without
// I/O. Talks to rust, js and go peers.
//
// The driver (net::MdnsSocket) has one socket for each interface and address family, a *link*. It
// tells which links exist, delivers packets, sends what take_packet() returns by the link named
// there, and calls on_time() at deadline(). Every query is answered by multicast, our own too: so
// the others hear of a node that starts.
//
// Invariant: a link has a next query exactly while it is up.
#pragma once

#include "base/bytes.hpp"
#include "base/random.hpp"
#include "base/strong.hpp"
#include "base/time.hpp"
#include "net/mdns/packet.hpp"
#include "net/wire/multiaddr.hpp"
#include "net/wire/peer_id.hpp"

#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace exo::net::mdns {

constexpr std::uint16_t port = 5353;
constexpr char const* group_ip4 = "224.0.0.251";
constexpr char const* group_ip6 = "ff02::fb";
constexpr char const* service = "_p2p._udp.local";

using LinkId = Strong<std::uint32_t, struct LinkIdTag>; // Chosen by the driver.

// A peer and one address to dial, without its /p2p part. Again only after it has expired.
struct Discovered {
    PeerId peer;
    Multiaddr address;
    bool of_this_machine = false; // Its packet came from one of our own addresses.
    bool operator==(Discovered const&) const = default;
};

// Somebody else who announces an address under our own peer id: a copy of our key.
struct Twin {
    LinkId link;
    Multiaddr address;
    bool operator==(Twin const&) const = default;
};

struct OutgoingPacket {
    LinkId link;
    Bytes bytes;
    bool operator==(OutgoingPacket const&) const = default;
};

// Where a packet came from.
struct Source {
    std::string ip;   // Without a zone.
    std::string zone; // The interface, for link-local IPv6.
    bool is_this_machine = false;
};

struct Options {
    Duration time_to_live = 2500s; // exo's.
    Duration query_interval = 1500s;
    // Until `eager_time` after a link has come up or a search has begun: at 0, 1, 3, 7 s and so on,
    // and then each `query_interval_eager`. Finding somebody does not end it: others may be found
    // yet, and networks that grew up apart are joined without a sign.
    Duration query_interval_first = 1s;
    Duration query_interval_eager = 30s;
    Duration eager_time = 1h;
    // Of all peers together; a network of 100 nodes with 8 addresses fits.
    std::size_t addresses_max = 1024;
    // Of one link: so many fit an Ethernet frame.
    std::size_t announced_max = 8;
    // Of one link; more questions than that are a flood, and our answer has been heard.
    std::size_t answers_per_second_max = 20;
};

class Discovery {
public:
    Discovery(PeerId self, Random random, Options options = {});

    // A link is there, with the addresses at which we can be reached through it (without /p2p). For
    // one that is there already the addresses are replaced, and announced if they are others.
    void link_up(LinkId link, std::vector<Multiaddr> addresses, TimePoint now);
    void link_down(LinkId link);

    // Asks eagerly again, as after the start, and tells again what was known: a peer has gone.
    void search(TimePoint now);

    // Anything else than a packet that we understand is ignored and counted.
    void receive(LinkId link, BytesView packet, Source const& source, TimePoint now);

    void on_time(TimePoint now);

    // Oldest first; take all after each call.
    [[nodiscard]] std::optional<OutgoingPacket> take_packet();
    [[nodiscard]] std::optional<Discovered> next_event();
    [[nodiscard]] std::optional<Twin> next_twin();

    // When on_time() wants to be called; TimePoint::max() without links and known addresses.
    [[nodiscard]] TimePoint deadline() const;

    [[nodiscard]] std::uint64_t malformed_count() const { return malformed_count_; }

private:
    struct Link {
        std::vector<Multiaddr> addresses;
        TimePoint next_query;
        Duration query_interval;
        TimePoint eager_until;
        TimePoint second_start;
        std::size_t answers_in_second = 0;
    };

    struct Key {
        PeerId peer;
        Multiaddr address;
        auto operator<=>(Key const&) const = default;
    };

    void begin_search(Link& link, TimePoint now) const;
    void query(LinkId id, Link& link, TimePoint now);
    void hear_query(Link& link, Source const& source, TimePoint now);
    void answer(LinkId id, Link& link, std::uint16_t query_id, TimePoint now);
    void read_answers(LinkId id, Packet const& packet, Source const& source, TimePoint now);
    [[nodiscard]] bool is_ours(Multiaddr const& address, Source const& source) const;
    void learn(Discovered const& found, std::uint32_t ttl_s, TimePoint now);

    PeerId self_;
    Random random_;
    Options options_;
    Name instance_; // Our name, random for each run.
    std::map<LinkId, Link> links_;
    std::map<Key, TimePoint> known_; // Until when.
    std::deque<OutgoingPacket> packets_;
    std::deque<Discovered> events_;
    std::deque<Twin> twins_;
    std::uint64_t malformed_count_ = 0;
};

// The addresses at which the listening addresses `listen` can be reached through an interface that
// has the address `ip`: that of a listener on all interfaces with the unspecified address replaced,
// and those bound to `ip` itself.
[[nodiscard]] std::vector<Multiaddr>
reachable_addresses(std::vector<Multiaddr> const& listen, std::string const& ip);

} // namespace exo::net::mdns
