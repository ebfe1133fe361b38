// SPDX-License-Identifier: Apache-2.0
//
// Who may stand at the door: inbound connections that have not proven who they are. Pure.
//
// A newcomer always gets a place. Where there is none left, the oldest leaves: of the newcomer's
// own address if that has its share, else of the address that has the most. An honest handshake
// takes milliseconds, so whoever stands there longest is the least likely to be one; and no address
// can push out those of others while it has more places than they.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace exo::net {

class PendingUpgrades {
public:
    using Ticket = std::uint64_t;

    struct Admitted {
        Ticket ticket = 0;
        std::optional<Ticket> evicted; // Has lost its place.
    };

    // REQUIRES: at least one place each.
    PendingUpgrades(std::size_t places_max, std::size_t places_per_source_max);

    // `source`: the address, or what else counts as one stranger.
    [[nodiscard]] Admitted admit(std::string const& source);

    // Its upgrade has ended, well or not. Nothing happens for one that was evicted.
    void remove(Ticket ticket);

    [[nodiscard]] std::size_t size() const { return waiting_.size(); }

private:
    [[nodiscard]] Ticket oldest_of(std::string const& source) const;
    [[nodiscard]] std::string const& largest_source() const;

    std::size_t places_max_;
    std::size_t places_per_source_max_;
    Ticket next_ = 1;
    std::map<Ticket, std::string> waiting_;     // The oldest first; the source of each.
    std::map<std::string, std::size_t> counts_; // By source, never 0.
};

} // namespace exo::net
