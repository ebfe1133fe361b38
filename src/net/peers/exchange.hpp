// SPDX-License-Identifier: Apache-2.0
//
// Passing on where peers are, so that A-B and A-C become a full mesh without multicast
// (`/exo/peers/1.0.0`). Pure; driven by the Host.
//
// A node tells each of its exo peers where its other peers are: those that it is connected to, at
// addresses that it knows first-hand (the driver sees to that). What it was told it does not pass
// on before the peer itself has answered there, so a lie costs its hearers a dial and goes no
// further. Loopback addresses are neither told nor taken; link-local ones mean something only on
// their link, so they are told only to peers that are reached by the same interface, and get the
// hearer's name of it.
//
// A peer is told when there is something that it was not told yet, and not more often than each
// `interval`.
#pragma once

#include "base/time.hpp"
#include "net/peers/message.hpp"

#include <optional>
#include <set>
#include <string>
#include <utility>

namespace exo::net::peers {

struct Limits {
    Duration interval = 1s;
    // A message that could not be delivered is said again after this.
    Duration retry = 30s;
    // Of the messages of one peer: so many at once, then one each interval.
    std::size_t burst_max = 8;
};

// A peer that is connected.
struct Contact {
    bool speaks = false;                // The protocol.
    std::string interface;              // Of ours, by which it is reached; empty: unknown.
    std::vector<Multiaddr> addresses{}; // First-hand, the best first; with our zones.
    bool operator==(Contact const&) const = default;
};

struct Outgoing {
    PeerId to;
    Bytes message;
};

class Exchange {
public:
    explicit Exchange(PeerId self, Limits limits = {});

    // It is connected; or what we know of it has changed.
    void update(PeerId const& peer, Contact contact, TimePoint now);
    void remove(PeerId const& peer);

    // What is to be said now; call until empty, and again at deadline().
    [[nodiscard]] std::optional<Outgoing> take_due(TimePoint now);
    [[nodiscard]] TimePoint deadline() const;

    // What take_due() gave for `peer` has not arrived.
    void undelivered(PeerId const& peer, TimePoint now);

    // Where others are, as `teller` says: addresses with /p2p. Errors: those of decode(), and
    // limit when it talks too much; then nothing is taken.
    [[nodiscard]] Result<std::vector<Multiaddr>>
    receive(PeerId const& teller, BytesView message, TimePoint now);

private:
    using Told = std::set<std::pair<PeerId, Multiaddr>>;

    struct Known {
        Contact contact{};
        Told told{}; // Of what we could say now.
        bool due = false;
        TimePoint next; // Not before.
        // Of what it sends to us: a leaky bucket.
        std::size_t received = 0;
        TimePoint received_since;
    };

    [[nodiscard]] Addresses words_for(PeerId const& peer, Contact const& contact) const;
    void look();

    PeerId self_;
    Limits limits_;
    std::map<PeerId, Known> known_;
};

} // namespace exo::net::peers
