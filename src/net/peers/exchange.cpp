// SPDX-License-Identifier: Apache-2.0
#include "net/peers/exchange.hpp"

#include "net/wire/ip.hpp"

#include <algorithm>

namespace exo::net::peers {
namespace {

// "%zone" if there is one.
std::optional<Multiaddr> in_zone(Multiaddr const& address, std::string const& zone) {
    auto const target = address.tcp_target();
    auto const made =
        Multiaddr::tcp(zone.empty() ? target->host : target->host + '%' + zone, target->port);
    return made ? std::optional(*made) : std::nullopt;
}

} // namespace

Exchange::Exchange(PeerId self, Limits limits)
    : self_(std::move(self))
    , limits_(limits) {}

void Exchange::update(PeerId const& peer, Contact contact, TimePoint now) {
    auto& known = known_.try_emplace(peer, Known{.next = now, .received_since = now}).first->second;
    if (known.contact != contact) {
        known.contact = std::move(contact);
        look();
    }
}

void Exchange::remove(PeerId const& peer) {
    known_.erase(peer);
    look();
}

// What `peer` may hear from us.
Addresses Exchange::words_for(PeerId const& peer, Contact const& contact) const {
    Addresses words;
    for (auto const& [other, known] : known_) {
        std::vector<Multiaddr> addresses;
        for (auto const& address : known.contact.addresses) {
            auto const ip = ip_of(address);
            bool const is_on_link = ip && ip->is_link_local();
            bool const same_link =
                !contact.interface.empty() && contact.interface == known.contact.interface;
            auto const told = ip && may_lead_elsewhere(*ip) && (!is_on_link || same_link)
                                  ? in_zone(address, "")
                                  : std::nullopt;
            if (told && addresses.size() < addresses_per_peer_max) {
                addresses.push_back(*told);
            }
        }
        if (other != peer && !addresses.empty()) {
            words.emplace(other, std::move(addresses));
        }
    }
    return words;
}

// Who is to be told. What cannot be said any more may be news again later.
void Exchange::look() {
    for (auto& [peer, known] : known_) {
        Told sayable;
        for (auto const& [other, addresses] : words_for(peer, known.contact)) {
            for (auto const& address : addresses) {
                sayable.emplace(other, address);
            }
        }
        std::erase_if(known.told, [&](auto const& one) { return !sayable.contains(one); });
        known.due = known.contact.speaks && known.told != sayable;
    }
}

std::optional<Outgoing> Exchange::take_due(TimePoint now) {
    for (auto& [peer, known] : known_) {
        if (!known.due || known.next > now) {
            continue;
        }
        auto const words = words_for(peer, known.contact);
        for (auto const& [other, addresses] : words) {
            for (auto const& address : addresses) {
                known.told.emplace(other, address);
            }
        }
        known.due = false;
        known.next = now + limits_.interval;
        return Outgoing{peer, encode(words)};
    }
    return std::nullopt;
}

void Exchange::undelivered(PeerId const& peer, TimePoint now) {
    if (auto const found = known_.find(peer); found != known_.end()) {
        found->second.told.clear();
        found->second.next = now + limits_.retry;
        look();
    }
}

TimePoint Exchange::deadline() const {
    auto deadline = TimePoint::max();
    for (auto const& [peer, known] : known_) {
        if (known.due) {
            deadline = std::min(deadline, known.next);
        }
    }
    return deadline;
}

Result<std::vector<Multiaddr>>
Exchange::receive(PeerId const& teller, BytesView message, TimePoint now) {
    auto const found = known_.find(teller);
    if (found == known_.end()) {
        return Error(Errc::unavailable, "peers: from a peer that has gone");
    }
    auto& known = found->second;
    auto const drained = static_cast<std::size_t>((now - known.received_since) / limits_.interval);
    if (drained > 0) {
        known.received -= std::min(known.received, drained);
        known.received_since = now;
    }
    if (known.received == limits_.burst_max) {
        return Error(Errc::limit, "peers: more messages than one each interval");
    }
    ++known.received;
    auto const words = decode(message);
    if (!words) {
        return words.error();
    }
    std::vector<Multiaddr> result;
    for (auto const& [peer, addresses] : *words) {
        if (peer == self_ || peer == teller) {
            continue; // Of itself it speaks by identify.
        }
        for (auto const& address : addresses) {
            auto const ip = ip_of(address);
            bool const is_usable = ip && may_lead_elsewhere(*ip) &&
                                   (!ip->is_link_local() || !known.contact.interface.empty());
            auto const usable =
                is_usable ? in_zone(address, ip->needs_zone() ? known.contact.interface : "")
                          : std::nullopt;
            if (usable) {
                result.push_back(usable->with_peer(peer));
            }
        }
    }
    return result;
}

} // namespace exo::net::peers
