// SPDX-License-Identifier: Apache-2.0
#include "net/dnssd/directory.hpp"

#include "base/assert.hpp"
#include "base/queue.hpp"

#include <algorithm>

namespace exo::net::dnssd {
namespace {

// Without /p2p, and with the zone in which a link-local address was heard. Empty for what only a
// stranger would announce: loopback, which is this machine, and names.
std::optional<Multiaddr> address_to_dial(Multiaddr const& announced, std::string const& interface) {
    auto const target = announced.tcp_target();
    auto const ip = ip_of(announced);
    if (!ip || !may_lead_elsewhere(*ip) || target->port == 0) {
        return std::nullopt;
    }
    auto const zone = ip->needs_zone() ? "%" + interface : "";
    auto const address = Multiaddr::tcp(target->host + zone, target->port);
    return address ? std::optional(*address) : std::nullopt;
}

} // namespace

Directory::Directory(PeerId self, std::string network, DirectoryOptions options)
    : self_(std::move(self))
    , network_(std::move(network))
    , options_(options) {}

bool Directory::appeared(std::string const& name, Link const& link, TimePoint now) {
    if (instance_name(name) != name) {
        return false; // Nothing to show to people.
    }
    Key const key{.name = name, .interface = link.interface};
    auto found = instances_.find(key);
    bool const was_there = found != instances_.end() && found->second.is_there();
    if (!was_there && count_there() >= options_.instances_max) {
        return false;
    }
    if (found == instances_.end()) {
        found = instances_.emplace(key, Instance{}).first;
    }
    auto& instance = found->second;
    (link.is_ip4 ? instance.on_ip4 : instance.on_ip6) = true;
    if (!was_there) {
        instance.since = now;
        instance.gone.reset();
        tell(key, instance); // What it said before is what it says, until it says otherwise.
    }
    return true;
}

void Directory::described(
    std::string const& name,
    std::string const& interface,
    std::vector<std::string> const& texts,
    TimePoint now
) {
    Key const key{.name = name, .interface = interface};
    auto const found = instances_.find(key);
    if (found == instances_.end() || !found->second.is_there()) {
        return;
    }
    auto& instance = found->second;
    auto announcement = decode_txt(texts);
    if (!announcement) {
        instance.announcement.reset();
        return;
    }
    if (instance.announcement == *announcement) {
        return; // The other family says the same.
    }
    bool const is_other =
        instance.announcement && instance.announcement->device_id != announcement->device_id;
    if (is_other) { // The name is another node's now.
        instance.since = now;
    }
    instance.announcement = std::move(*announcement);
    tell(key, instance);
}

bool Directory::vanished(std::string const& name, Link const& link, TimePoint now) {
    auto const found = instances_.find(Key{.name = name, .interface = link.interface});
    if (found != instances_.end() && found->second.is_there()) {
        auto& instance = found->second;
        (link.is_ip4 ? instance.on_ip4 : instance.on_ip6) = false;
        if (!instance.is_there()) {
            leave(instance, now);
        }
    }
    bool const is_anywhere = std::ranges::any_of(instances_, [&](auto const& entry) {
        return entry.first.name == name && entry.second.is_there();
    });
    forget(now);
    return !is_anywhere;
}

void Directory::clear(TimePoint now) {
    for (auto& [key, instance] : instances_) {
        if (instance.is_there()) {
            leave(instance, now);
        }
    }
    forget(now);
}

void Directory::set_network(std::string network, TimePoint now) {
    network_ = std::move(network);
    forget(now);
    for (auto const& [key, instance] : instances_) {
        tell(key, instance);
    }
}

std::optional<Found> Directory::next_event() {
    return take_front(events_);
}

std::vector<Found> Directory::of_our_network() const {
    std::vector<Found> result;
    for (auto const& [key, instance] : instances_) {
        if (is_ours(instance)) {
            result.push_back(found(key, instance));
        }
    }
    return result;
}

std::vector<AnnouncedFacts> Directory::facts(TimePoint now) const {
    std::vector<AnnouncedFacts> facts;
    for (auto const& [key, instance] : instances_) {
        auto const& said = instance.announcement;
        bool const is_old = instance.gone && now - *instance.gone > options_.gone_for;
        if (is_old || (said && said->device_id == self_.text())) {
            continue;
        }
        AnnouncedFacts one{
            .name = key.name,
            .interface = key.interface,
            .since = instance.since,
            .gone = instance.gone,
        };
        if (said) {
            one.peer = said->device_id;
            one.version = said->version;
            one.same_network = said->network == network_;
            for (auto const& address : said->addresses) {
                one.addresses.push_back(address.text());
            }
        }
        facts.push_back(std::move(one));
    }
    return facts;
}

// There, of our network, another node than this one.
bool Directory::is_ours(Instance const& instance) const {
    auto const& said = instance.announcement;
    return instance.is_there() && said && said->network == network_ &&
           said->device_id != self_.text() && PeerId::parse(said->device_id).has_value();
}

Found Directory::found(Key const& key, Instance const& instance) const {
    EXO_ASSERT(instance.announcement.has_value());
    Found result{.peer = PeerId::parse(instance.announcement->device_id).value()};
    for (auto const& address : instance.announcement->addresses) {
        if (auto to_dial = address_to_dial(address, key.interface)) {
            result.addresses.push_back(std::move(*to_dial));
        }
    }
    return result;
}

void Directory::tell(Key const& key, Instance const& instance) {
    if (is_ours(instance)) {
        events_.push_back(found(key, instance));
    }
}

void Directory::leave(Instance& instance, TimePoint now) {
    instance.on_ip4 = false;
    instance.on_ip6 = false;
    instance.gone = now;
}

// Those gone for long, and the oldest of those gone when there are too many.
void Directory::forget(TimePoint now) {
    std::vector<std::pair<TimePoint, Key>> gone;
    for (auto const& [key, instance] : instances_) {
        if (instance.gone) {
            gone.emplace_back(*instance.gone, key);
        }
    }
    std::ranges::sort(gone);
    std::size_t left = gone.size();
    for (auto const& [when, key] : gone) {
        if (left > options_.gone_max || now - when > options_.gone_for) {
            instances_.erase(key);
            --left;
        }
    }
}

std::size_t Directory::count_there() const {
    return static_cast<std::size_t>(std::ranges::count_if(instances_, [](auto const& entry) {
        return entry.second.is_there();
    }));
}

} // namespace exo::net::dnssd
