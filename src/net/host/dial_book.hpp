// SPDX-License-Identifier: Apache-2.0
//
// Which addresses to dial, and when. Pure; driven by the Host.
//
// The addresses of one peer are tried in rounds (as RFC 8305 does): the best first, and the next
// each 250 ms, IPv4 and IPv6 in turn, while none has answered; a worse kind of way (a VPN, then a
// container's bridge, then loopback) waits a little longer, so that it does not win over a LAN
// address that answers. An address that is dead, or where somebody else answers, costs its peer
// nothing but its turn. When all have failed the round is repeated after a pause that grows up to
// a limit, for ever.
//
// A peer that is connected by a bad way only is still dialled at better addresses, ever more
// seldom.
//
// Invariants: an address belongs to one party, which is a peer, or the address itself while nobody
// knows who lives there; of a peer that is connected only better addresses are dialled.
#pragma once

#include "base/random.hpp"
#include "base/time.hpp"
#include "net/diagnosis/facts.hpp"
#include "net/interfaces/reach.hpp"
#include "net/wire/multiaddr.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace exo::net {

class DialBook {
public:
    // How an address came to us, the most trusted last.
    enum class Origin {
        told,  // By a peer, of another one.
        heard, // From the peer itself: by multicast, or by identify.
        given, // By a person.
    };

    struct Found {
        Origin origin = Origin::heard;
        Reach reach = Reach::lan;
        bool of_this_machine = false;   // Only then is a loopback address worth anything.
        std::optional<PeerId> teller{}; // Of what is told.
    };

    struct Limits {
        // 100 nodes with 8 addresses each fit.
        std::size_t entries_max = 1024;
        std::size_t per_peer_max = 16;
        // Of what is told, by all and by one peer: a liar costs us so many dials a minute.
        std::size_t told_max = 512;
        std::size_t told_per_teller_max = 128;
        // A dead address costs a socket for 4 s.
        std::size_t dialling_max = 32;
        // From one try of a party to the next, while none has failed.
        Duration stagger = 250ms;
        Duration stagger_worse = 750ms; // When the next one leads a worse way.
        // Before an address by a VPN or a bridge is dialled for the first time: a better one may be
        // heard in this time.
        Duration hold_worse = 1s;
        // The pause after a round that failed: doubled from the first to the second. A peer that
        // returns is met within the second, and every known peer may have one of 8 sockets open.
        Duration pause_first = 500ms;
        Duration pause_max = 5s;
        // Once nobody has answered for `patience`, for what was only told, and for better addresses
        // of a peer that is connected. Never for what a person gave.
        Duration pause_slow = 60s;
        Duration patience = 30min;
        // Not dialled any more: it would be heard, or told, again.
        Duration forget_heard = 24h;
        Duration forget_told = 10min;
        // A connection that ended earlier than this was no success: the next one has to wait.
        Duration settled = 10s;
    };

    struct Dial {
        Multiaddr address;              // Without /p2p.
        std::optional<PeerId> expected; // Nobody else is wanted there.
        bool operator==(Dial const&) const = default;
    };

    DialBook(PeerId self, Random random, Limits limits);

    // With or without /p2p. Our own is left out, and what is no address of TCP; one that was heard
    // gets a try soon. What was heard or given outweighs what was told.
    void add(Multiaddr const& address, Found const& found, TimePoint now);

    // Of what a person gave, only these stay; the rest is forgotten.
    void keep_given(std::vector<Multiaddr> const& addresses, TimePoint now);

    // Everything is worth a try at once, whatever became of earlier ones: in another network.
    void start_over(TimePoint now);

    // The interfaces have changed: ranks all addresses anew, and tries all soon.
    void rank(std::function<Reach(Multiaddr const&)> const& reach, TimePoint now);

    // What is to be dialled now. Each of them counts as being dialled until one of the functions
    // below has said how it ended.
    [[nodiscard]] std::vector<Dial> take_due(TimePoint now);

    void succeeded(Multiaddr const& address, PeerId const& peer, TimePoint now);
    void failed(Multiaddr const& address, std::string error, TimePoint now);
    // Somebody else than the expected peer: forgotten, unless a person gave it.
    void was_someone_else(Multiaddr const& address, std::string error, TimePoint now);
    void was_ourselves(Multiaddr const& address, TimePoint now);
    // It is not wanted any more; says nothing of the address.
    void given_up(Multiaddr const& address);

    // Whether one that is being dialled is still worth it: its peer may have been connected as
    // well meanwhile.
    [[nodiscard]] bool is_wanted(Multiaddr const& address) const;

    // The peer is connected, and by that way at best. Again when that has changed.
    void connected(PeerId const& peer, Reach reach, TimePoint now);

    // The last connection with the peer has gone; it is not dialled before `pause` has passed.
    void lost(PeerId const& peer, TimePoint now, Duration pause);

    // When to call take_due().
    [[nodiscard]] TimePoint deadline() const;

    // What may be told of a peer to others, the best first: IP addresses that we have heard from
    // it, that a person gave, or where it has answered; not loopback.
    [[nodiscard]] std::vector<Multiaddr> known(PeerId const& peer) const;

    [[nodiscard]] std::vector<DialFacts> facts() const;

    [[nodiscard]] std::size_t size() const { return entries_.size(); }

private:
    using PartyId = std::variant<PeerId, Multiaddr>;

    struct Entry {
        Found found;
        std::optional<PeerId> peer; // Of the address, or who answered last.
        bool is_ip4 = false;
        bool dialling = false;
        bool tried = false;    // In this round.
        bool answered = false; // Its peer, once.
        bool ourselves = false;
        TimePoint not_before;
        std::uint32_t failures = 0; // In a row.
        std::optional<TimePoint> failing_since{};
        std::string error{};
    };

    using Entries = std::map<Multiaddr, Entry>;

    struct Party {
        std::set<Multiaddr> addresses;
        bool connected = false;
        Reach connected_by = Reach::lan;
        TimePoint connected_since;
        TimePoint next;                  // Of the round.
        std::uint32_t rounds_failed = 0; // In a row.
        std::uint32_t short_lives = 0;   // Connections that did not last, in a row.
        // Of the last dial that began.
        TimePoint last_start;
        bool last_was_ip4 = false;
        Reach last_reach = Reach::lan;
    };

    // The next one of a party, and when.
    struct Turn {
        TimePoint at = TimePoint::max();
        Multiaddr const* address = nullptr;
    };

    [[nodiscard]] static PartyId party_of(Multiaddr const& address, Entry const& entry);
    [[nodiscard]] Turn turn_of(Party const& party) const;
    [[nodiscard]] static bool is_wanted(Party const& party, Entry const& entry);
    void begin(Multiaddr const& address, TimePoint now);
    Entry& ended(Multiaddr const& address);
    void end_round(Party& party, TimePoint now);
    [[nodiscard]] Duration pause_of(Party const& party, std::uint32_t failures, TimePoint now);
    [[nodiscard]] bool
    has_room_for(std::optional<PeerId> const& peer, Found const& found, TimePoint now);
    bool drop_one(std::function<bool(Entry const&)> const& may_go, TimePoint now);
    [[nodiscard]] std::size_t count_told(std::optional<PeerId> const& teller) const;
    void insert(Multiaddr const& address, Entry entry, TimePoint now);
    void move_to(Multiaddr const& address, std::optional<PeerId> peer, TimePoint now);
    void leave_party(Multiaddr const& address, Entry const& entry, TimePoint now);
    void erase(Multiaddr address, TimePoint now);
    [[nodiscard]] bool is_forgotten(Entry const& entry, TimePoint now) const;

    PeerId self_;
    Random random_;
    Limits limits_;
    Entries entries_; // By address without /p2p: from here it leads to one place.
    std::map<PartyId, Party> parties_;
    std::size_t dialling_ = 0;
};

} // namespace exo::net
