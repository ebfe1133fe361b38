// SPDX-License-Identifier: Apache-2.0
//
// Which nodes announce themselves by DNS-SD, of our network and of others, and which of them have
// gone. Told by the driver what it hears; says whom to dial, and keeps what a diagnosis wants to
// know. Pure.
//
// An instance is a name on one interface: two networks that this machine is on may each have a
// "raspberrypi". It is there while IPv4 or IPv6 says so.
//
// Invariant: at most `instances_max` are there, and at most `gone_max` are remembered besides.
#pragma once

#include "base/time.hpp"
#include "net/diagnosis/facts.hpp"
#include "net/dnssd/announcement.hpp"

#include <compare>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace exo::net::dnssd {

// Where an instance is heard.
struct Link {
    std::string interface;
    bool is_ip4 = true;
    auto operator<=>(Link const&) const = default;
};

// A node of our network, and where to dial it: without /p2p, link-local ones with their zone.
struct Found {
    PeerId peer;
    std::vector<Multiaddr> addresses;
    bool operator==(Found const&) const = default;
};

struct DirectoryOptions {
    // Ten times the nodes that a cluster is made for. More are somebody's nonsense.
    std::size_t instances_max = 512;
    std::size_t gone_max = 64;
    Duration gone_for = std::chrono::hours(1);
};

class Directory {
public:
    // `network`: network_hash() of ours.
    Directory(PeerId self, std::string network, DirectoryOptions options = {});

    // The name of an instance was heard. False: it is not to be looked at, for there are too many,
    // or the name is unfit for people's eyes.
    [[nodiscard]] bool appeared(std::string const& name, Link const& link, TimePoint now);

    // The TXT record of an instance that is there; of others it is passed over.
    void described(
        std::string const& name,
        std::string const& interface,
        std::vector<std::string> const& texts,
        TimePoint now
    );

    // It said good-bye, or its records ran out. True: the name is not heard anywhere any more.
    [[nodiscard]] bool vanished(std::string const& name, Link const& link, TimePoint now);

    // All that is there goes: the driver starts anew, or the network is another one.
    void clear(TimePoint now);
    void set_network(std::string network, TimePoint now);

    // Nodes of our network to dial: each when it comes, comes again, or moves. Take all.
    [[nodiscard]] std::optional<Found> next_event();

    // All nodes of our network that are there; for dialling those again that got lost.
    [[nodiscard]] std::vector<Found> of_our_network() const;

    // By name; ourselves are not among them.
    [[nodiscard]] std::vector<AnnouncedFacts> facts(TimePoint now) const;

    [[nodiscard]] std::size_t size() const { return instances_.size(); } // With those gone.

private:
    struct Key {
        std::string name;
        std::string interface;
        auto operator<=>(Key const&) const = default;
    };

    struct Instance {
        bool on_ip4 = false;
        bool on_ip6 = false;
        std::optional<Announcement> announcement; // None: not read yet, or not a node's.
        TimePoint since;
        std::optional<TimePoint> gone;

        [[nodiscard]] bool is_there() const { return on_ip4 || on_ip6; }
    };

    [[nodiscard]] bool is_ours(Instance const& instance) const;
    [[nodiscard]] Found found(Key const& key, Instance const& instance) const;
    void tell(Key const& key, Instance const& instance);
    void leave(Instance& instance, TimePoint now);
    void forget(TimePoint now);
    [[nodiscard]] std::size_t count_there() const;

    PeerId self_;
    std::string network_;
    DirectoryOptions options_;
    std::map<Key, Instance> instances_;
    std::deque<Found> events_;
};

} // namespace exo::net::dnssd
