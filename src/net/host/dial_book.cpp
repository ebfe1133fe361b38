// SPDX-License-Identifier: Apache-2.0
#include "net/host/dial_book.hpp"

#include "base/assert.hpp"

#include <algorithm>

namespace exo::net {

DialBook::DialBook(PeerId self, Limits limits)
    : self_(std::move(self))
    , limits_(limits) {}

void DialBook::add(Multiaddr const& address, Origin origin, TimePoint now) {
    auto const peer = address.peer();
    if (!address.tcp_target() || peer == self_) {
        return;
    }
    auto found = entries_.find(address);
    if (found == entries_.end()) {
        if (!make_room()) {
            return;
        }
        Entry entry{.origin = origin, .peer = peer, .quality = address_class(address)};
        found = entries_.emplace(address, std::move(entry)).first;
    }
    auto& entry = found->second;
    if (origin == Origin::given) {
        entry.origin = origin;
    }
    entry.next = now;
}

// The one that fails most goes; one that never failed stays.
bool DialBook::make_room() {
    if (entries_.size() < limits_.entries_max) {
        return true;
    }
    auto const worth = [](auto const& item) {
        bool const fixed = item.second.origin == Origin::given || item.second.dialling;
        return fixed ? 0 : item.second.failures;
    };
    auto const worst = std::ranges::max_element(entries_, {}, worth);
    if (worth(*worst) == 0) {
        return false;
    }
    entries_.erase(worst);
    return true;
}

DialBook::BestClasses DialBook::best_classes() const {
    BestClasses best;
    for (auto const& [address, entry] : entries_) {
        if (entry.peer) {
            auto const& found = best.emplace(*entry.peer, entry.quality).first;
            found->second = std::min(found->second, entry.quality);
        }
    }
    return best;
}

TimePoint DialBook::due_time(Entry const& entry, BestClasses const& best) const {
    auto const behind = entry.peer ? entry.quality - best.at(*entry.peer) : 0;
    return entry.next + limits_.head_start * behind;
}

std::vector<Multiaddr> DialBook::take_due(TimePoint now, IsConnected const& is_connected) {
    std::vector<Multiaddr> due;
    auto const best = best_classes();
    for (auto& [address, entry] : entries_) {
        if (entry.dialling || entry.ourselves || due_time(entry, best) > now) {
            continue;
        }
        if (entry.peer && is_connected(*entry.peer)) {
            entry.next = now + limits_.redial_interval;
            continue;
        }
        if (dialling_ == limits_.dialling_max) {
            break; // The next one that ends makes room.
        }
        entry.dialling = true;
        ++dialling_;
        due.push_back(address);
    }
    return due;
}

void DialBook::succeeded(Multiaddr const& address, PeerId const& peer, TimePoint now) {
    auto& entry = entries_.at(address);
    EXO_ASSERT(entry.dialling);
    entry.dialling = false;
    --dialling_;
    entry.peer = peer;
    entry.failures = 0;
    entry.next = now + limits_.redial_interval;
}

void DialBook::failed(Multiaddr const& address, TimePoint now) {
    auto& entry = entries_.at(address);
    EXO_ASSERT(entry.dialling);
    entry.dialling = false;
    --dialling_;
    ++entry.failures;
    bool const slow =
        entry.origin == Origin::learnt && entry.failures >= limits_.failures_until_slow;
    entry.next = now + (slow ? limits_.redial_interval_slow : limits_.redial_interval);
}

void DialBook::is_ourselves(Multiaddr const& address) {
    auto& entry = entries_.at(address);
    EXO_ASSERT(entry.dialling);
    entry.dialling = false;
    --dialling_;
    entry.ourselves = true;
}

void DialBook::lost(PeerId const& peer, TimePoint now, Duration pause) {
    for (auto& [address, entry] : entries_) {
        if (entry.peer == peer && entry.failures == 0) {
            entry.next = now + pause;
        }
    }
}

TimePoint DialBook::deadline() const {
    auto deadline = TimePoint::max();
    if (dialling_ == limits_.dialling_max) {
        return deadline;
    }
    auto const best = best_classes();
    for (auto const& [address, entry] : entries_) {
        if (!entry.dialling && !entry.ourselves) {
            deadline = std::min(deadline, due_time(entry, best));
        }
    }
    return deadline;
}

int address_class(Multiaddr const& address) {
    auto const target = address.tcp_target();
    if (!target) {
        return 0;
    }
    auto const& host = target->host;
    if (host.starts_with("127.") || host == "::1") {
        return 3;
    }
    // 100.64.0.0/10 and fd7a:115c:a1e0::/48 are Tailscale's, 172.17.0.0/16 is docker's bridge.
    int second = 0;
    if (host.starts_with("100.")) {
        second = std::atoi(host.c_str() + 4);
    }
    if ((second >= 64 && second < 128) || host.starts_with("172.17.") ||
        host.starts_with("fd7a:115c:a1e0:")) {
        return 2;
    }
    bool const link_local = host.starts_with("fe80:") || host.starts_with("169.254.");
    return link_local ? 1 : 0;
}

} // namespace exo::net
