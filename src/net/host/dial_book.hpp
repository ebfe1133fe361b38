// SPDX-License-Identifier: Apache-2.0
//
// Which addresses to dial, and when: each again every `redial_interval` while its peer is not
// connected. Pure; driven by the Host.
//
// Of several addresses of one peer the better ones get a head start, so that a loopback, docker or
// VPN address does not win over a LAN address that answers.
#pragma once

#include "base/time.hpp"
#include "net/wire/multiaddr.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace exo::net {

class DialBook {
public:
    // Those given by people are kept for good, the others make room when it gets tight.
    enum class Origin { given, learnt };

    struct Limits {
        // 100 nodes with 8 addresses each fit.
        std::size_t entries_max = 1024;
        // A dead address costs a socket for 10 s.
        std::size_t dialling_max = 16;
        Duration redial_interval = 5s;
        // An address that failed so often in a row is tried less often.
        std::uint32_t failures_until_slow = 12;
        Duration redial_interval_slow = 60s;
        // For each class of address that is worse than the best.
        Duration head_start = 250ms;
    };

    using IsConnected = std::function<bool(PeerId const&)>;

    DialBook(PeerId self, Limits limits);

    // With or without /p2p. Our own is left out; one that is known gets another try at once.
    void add(Multiaddr const& address, Origin origin, TimePoint now);

    // What is to be dialled now. Each of them counts as being dialled until one of the three
    // below says how it ended.
    [[nodiscard]] std::vector<Multiaddr> take_due(TimePoint now, IsConnected const& is_connected);

    void succeeded(Multiaddr const& address, PeerId const& peer, TimePoint now);
    void failed(Multiaddr const& address, TimePoint now);
    void is_ourselves(Multiaddr const& address);

    // The last connection with the peer has gone: its addresses are tried again, after `pause`.
    void lost(PeerId const& peer, TimePoint now, Duration pause);

    // When to call take_due().
    [[nodiscard]] TimePoint deadline() const;

    [[nodiscard]] std::size_t size() const { return entries_.size(); }

private:
    struct Entry {
        Origin origin = Origin::learnt;
        std::optional<PeerId> peer; // Of the address, or who answered last.
        int quality = 0;            // address_class().
        TimePoint next;             // Not counting the head start of better addresses.
        bool dialling = false;
        bool ourselves = false;
        std::uint32_t failures = 0; // In a row.
    };

    // The best class that each peer has an address of.
    using BestClasses = std::map<PeerId, int>;

    [[nodiscard]] BestClasses best_classes() const;
    [[nodiscard]] TimePoint due_time(Entry const& entry, BestClasses const& best) const;
    bool make_room();

    PeerId self_;
    Limits limits_;
    std::map<Multiaddr, Entry> entries_;
    std::size_t dialling_ = 0;
};

// 0 is best: LAN and public addresses, then link-local ones, then those that overlays and
// containers use, then loopback.
[[nodiscard]] int address_class(Multiaddr const& address);

} // namespace exo::net
