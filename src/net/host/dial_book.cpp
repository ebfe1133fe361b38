// SPDX-License-Identifier: Apache-2.0
#include "net/host/dial_book.hpp"

#include "base/assert.hpp"

#include <algorithm>
#include <tuple>

namespace exo::net {
DialBook::DialBook(PeerId self, Random random, Limits limits)
    : self_(std::move(self))
    , random_(random)
    , limits_(limits) {
    limits_.pause_first = std::min(limits_.pause_first, limits_.pause_max);
}

// --- What is known ---

void DialBook::add(Multiaddr const& with_peer, Found const& found, TimePoint now) {
    auto const peer = with_peer.peer();
    auto const address = with_peer.without_peer();
    auto const target = address.tcp_target();
    if (!target || target->port == 0 || peer == self_) {
        return;
    }
    auto const ip = ip_of(address);
    bool const may_lead_there =
        !ip || may_lead_elsewhere(*ip) || (ip->is_loopback() && found.of_this_machine);
    if (found.origin != Origin::given && !may_lead_there) {
        return;
    }
    auto const known = entries_.find(address);
    if (known == entries_.end()) {
        if (has_room_for(peer, found, now)) {
            insert(address, {.found = found, .peer = peer, .is_ip4 = ip && ip->is_ip4()}, now);
        }
        return;
    }
    auto& entry = known->second;
    if (found.origin == Origin::told) {
        return; // Hearsay changes nothing of what we know.
    }
    entry.found.origin = std::max(entry.found.origin, found.origin);
    entry.found.of_this_machine = found.of_this_machine;
    entry.found.teller.reset();
    entry.tried = entry.dialling;
    bool const is_busy = entry.dialling || (entry.peer && parties_.at(*entry.peer).connected);
    if (peer && peer != entry.peer && !is_busy) {
        move_to(address, peer, now); // Somebody else lives there now.
    }
    auto& party = parties_.at(party_of(address, entries_.at(address)));
    if (party.short_lives == 0) { // Else it is here, but does not stay.
        party.next = std::min(party.next, now);
    }
}

bool DialBook::has_room_for(std::optional<PeerId> const& peer, Found const& found, TimePoint now) {
    bool const is_told = found.origin == Origin::told;
    if (is_told && (count_told(std::nullopt) >= limits_.told_max ||
                    count_told(found.teller) >= limits_.told_per_teller_max)) {
        return false;
    }
    auto const party = peer ? parties_.find(*peer) : parties_.end();
    if (party != parties_.end() && party->second.addresses.size() >= limits_.per_peer_max &&
        found.origin != Origin::given) {
        auto const is_of_peer = [&](Entry const& entry) { return entry.peer == peer; };
        if (is_told || !drop_one(is_of_peer, now)) {
            return false;
        }
    }
    if (entries_.size() < limits_.entries_max) {
        return true;
    }
    auto const may_go = [is_told](Entry const& entry) {
        return !is_told || entry.found.origin == Origin::told;
    };
    return drop_one(may_go, now);
}

// Of those that may go: hearsay before what was heard, and what fails most. What a person gave
// stays, and what never failed, unless it is hearsay.
bool DialBook::drop_one(std::function<bool(Entry const&)> const& may_go, TimePoint now) {
    Multiaddr const* worst = nullptr;
    std::tuple<bool, std::uint32_t> worst_worth;
    for (auto const& [address, entry] : entries_) {
        bool const is_told = entry.found.origin == Origin::told && !entry.answered;
        bool const stays = entry.found.origin == Origin::given || entry.dialling ||
                           (!is_told && entry.failures == 0);
        std::tuple const worth(is_told, entry.failures);
        if (!stays && may_go(entry) && (worst == nullptr || worth > worst_worth)) {
            worst = &address;
            worst_worth = worth;
        }
    }
    if (worst == nullptr) {
        return false;
    }
    erase(*worst, now);
    return true;
}

// By `teller`, or by all.
std::size_t DialBook::count_told(std::optional<PeerId> const& teller) const {
    auto const is_told = [&](auto const& item) {
        auto const& found = item.second.found;
        return found.origin == Origin::told && (!teller || found.teller == teller);
    };
    return static_cast<std::size_t>(std::ranges::count_if(entries_, is_told));
}

DialBook::PartyId DialBook::party_of(Multiaddr const& address, Entry const& entry) {
    return entry.peer ? PartyId(*entry.peer) : PartyId(address);
}

void DialBook::insert(Multiaddr const& address, Entry entry, TimePoint now) {
    auto const id = party_of(address, entry);
    bool const is_worse = rank_of(entry.found.reach) > 0;
    bool const has_waited = entry.answered || entry.found.origin == Origin::given;
    entry.not_before = is_worse && !has_waited ? now + limits_.hold_worse : now;
    bool const is_told = entry.found.origin == Origin::told;
    entries_.emplace(address, std::move(entry));
    auto& party = parties_.try_emplace(id, Party{.next = now}).first->second;
    party.addresses.insert(address);
    if (!is_told) { // Hearsay of a peer that we know already has to wait for its turn.
        party.next = std::min(party.next, now);
    }
}

void DialBook::move_to(Multiaddr const& address, std::optional<PeerId> peer, TimePoint now) {
    auto entry = std::move(entries_.at(address));
    leave_party(address, entry, now);
    entries_.erase(address);
    entry.peer = std::move(peer);
    insert(address, std::move(entry), now);
}

void DialBook::leave_party(Multiaddr const& address, Entry const& entry, TimePoint now) {
    auto const found = parties_.find(party_of(address, entry));
    EXO_ASSERT(found != parties_.end());
    auto& party = found->second;
    auto const removed = party.addresses.erase(address);
    EXO_ASSERT(removed == 1);
    if (!party.addresses.empty()) {
        end_round(party, now); // It may have been the last one that the round waited for.
    } else if (!party.connected) {
        parties_.erase(found);
    }
}

// By value: it may be the key that goes.
void DialBook::erase(Multiaddr address, TimePoint now) {
    leave_party(address, entries_.at(address), now);
    entries_.erase(address);
}

void DialBook::keep_given(std::vector<Multiaddr> const& addresses, TimePoint now) {
    std::vector<Multiaddr> gone;
    for (auto& [address, entry] : entries_) {
        auto const is_it = [&](Multiaddr const& one) { return one.without_peer() == address; };
        if (entry.found.origin != Origin::given || std::ranges::any_of(addresses, is_it)) {
            continue;
        }
        if (entry.dialling) {
            entry.found.origin = Origin::heard; // How that ends is still to be told.
        } else {
            gone.push_back(address);
        }
    }
    for (auto const& address : gone) {
        erase(address, now);
    }
}

void DialBook::start_over(TimePoint now) {
    for (auto& [address, entry] : entries_) {
        entry.failures = 0;
        entry.failing_since.reset();
        entry.tried = entry.dialling;
    }
    for (auto& [id, party] : parties_) {
        party.rounds_failed = 0;
        party.short_lives = 0;
        party.next = now;
    }
}

void DialBook::rank(std::function<Reach(Multiaddr const&)> const& reach, TimePoint now) {
    for (auto& [address, entry] : entries_) {
        entry.found.reach = reach(address);
        entry.ourselves = false;
        entry.tried = false;
    }
    for (auto& [id, party] : parties_) {
        party.rounds_failed = 0;
        // Not all in one instant: hundreds may be known.
        auto const spread = static_cast<std::uint64_t>(limits_.pause_first.count()) + 1;
        party.next = std::min(party.next, now + Duration(random_.below(spread)));
    }
}

// --- What to dial ---

bool DialBook::is_wanted(Party const& party, Entry const& entry) {
    bool const is_better = entry.found.reach != Reach::loopback &&
                           rank_of(entry.found.reach) < rank_of(party.connected_by);
    return !party.connected || is_better;
}

bool DialBook::is_wanted(Multiaddr const& address) const {
    auto const& entry = entries_.at(address);
    return is_wanted(parties_.at(party_of(address, entry)), entry);
}

// The best one that was not tried in this round, and when its turn comes.
DialBook::Turn DialBook::turn_of(Party const& party) const {
    Turn turn;
    bool is_dialling = false;
    auto const worth = [&](Entry const& entry) {
        bool const same_family = entry.is_ip4 == party.last_was_ip4;
        return std::tuple(entry.found.reach, entry.failures > 0, same_family);
    };
    Entry const* best = nullptr;
    for (auto const& address : party.addresses) {
        auto const& entry = entries_.at(address);
        is_dialling = is_dialling || entry.dialling;
        if (entry.dialling || entry.tried || entry.ourselves || !is_wanted(party, entry)) {
            continue;
        }
        if (best == nullptr || worth(entry) < worth(*best)) {
            best = &entry;
            turn.address = &address;
        }
    }
    if (best != nullptr) {
        bool const is_worse = best->found.reach > party.last_reach;
        auto const after = is_worse ? limits_.stagger_worse : limits_.stagger;
        turn.at = std::max(party.next, best->not_before);
        if (is_dialling) {
            turn.at = std::max(turn.at, party.last_start + after);
        }
    }
    return turn;
}

std::vector<DialBook::Dial> DialBook::take_due(TimePoint now) {
    std::vector<Dial> due;
    while (dialling_ < limits_.dialling_max) {
        // Who has waited longest comes first, so that many dead ones keep nobody out.
        Turn next;
        for (auto const& [id, party] : parties_) {
            auto const turn = turn_of(party);
            if (turn.at < next.at) {
                next = turn;
            }
        }
        if (next.address == nullptr || next.at > now) {
            break;
        }
        auto const& entry = entries_.at(*next.address);
        auto const is_pinned = entry.found.origin != Origin::given;
        due.push_back({*next.address, is_pinned ? entry.peer : std::nullopt});
        begin(*next.address, now);
    }
    return due;
}

void DialBook::begin(Multiaddr const& address, TimePoint now) {
    auto& entry = entries_.at(address);
    EXO_ASSERT(!entry.dialling);
    entry.dialling = true;
    entry.tried = true;
    ++dialling_;
    auto& party = parties_.at(party_of(address, entry));
    party.last_start = now;
    party.last_was_ip4 = entry.is_ip4;
    party.last_reach = entry.found.reach;
}

TimePoint DialBook::deadline() const {
    auto deadline = TimePoint::max();
    if (dialling_ == limits_.dialling_max) {
        return deadline; // The next one that ends makes room.
    }
    for (auto const& [id, party] : parties_) {
        deadline = std::min(deadline, turn_of(party).at);
    }
    return deadline;
}

// --- How it ended ---

DialBook::Entry& DialBook::ended(Multiaddr const& address) {
    auto const found = entries_.find(address);
    EXO_ASSERT(found != entries_.end());
    EXO_ASSERT(found->second.dialling);
    found->second.dialling = false;
    --dialling_;
    return found->second;
}

void DialBook::succeeded(Multiaddr const& address, PeerId const& peer, TimePoint now) {
    auto& entry = ended(address);
    entry.answered = true;
    entry.failures = 0;
    entry.failing_since.reset();
    entry.error.clear();
    if (entry.found.origin == Origin::told) {
        entry.found.origin = Origin::heard; // It is first-hand now.
        entry.found.teller.reset();
    }
    if (entry.peer != peer) {
        move_to(address, peer, now);
    }
}

void DialBook::failed(Multiaddr const& address, std::string error, TimePoint now) {
    auto& entry = ended(address);
    ++entry.failures;
    entry.error = std::move(error);
    if (!entry.failing_since) {
        entry.failing_since = now;
    }
    if (is_forgotten(entry, now)) {
        erase(address, now);
    } else {
        end_round(parties_.at(party_of(address, entry)), now);
    }
}

bool DialBook::is_forgotten(Entry const& entry, TimePoint now) const {
    switch (entry.found.origin) {
    case Origin::given:
        return false;
    case Origin::heard:
        return now - *entry.failing_since >= limits_.forget_heard;
    case Origin::told:
        return now - *entry.failing_since >= limits_.forget_told;
    }
    EXO_ASSERT(false);
}

void DialBook::was_someone_else(Multiaddr const& address, std::string error, TimePoint now) {
    if (entries_.at(address).found.origin == Origin::given) {
        failed(address, std::move(error), now);
        return;
    }
    (void)ended(address);
    erase(address, now);
}

void DialBook::was_ourselves(Multiaddr const& address, TimePoint now) {
    auto& entry = ended(address);
    entry.ourselves = true;
    end_round(parties_.at(party_of(address, entry)), now);
}

void DialBook::given_up(Multiaddr const& address) {
    ended(address).tried = false;
}

// Once all addresses of the party have failed: all again, after a pause.
void DialBook::end_round(Party& party, TimePoint now) {
    auto const is_open = [&](Multiaddr const& one) {
        auto const& entry = entries_.at(one);
        bool const is_left = !entry.tried && !entry.ourselves && is_wanted(party, entry);
        return entry.dialling || is_left;
    };
    if (std::ranges::any_of(party.addresses, is_open)) {
        return;
    }
    ++party.rounds_failed;
    party.next = now + pause_of(party, party.rounds_failed, now);
    for (auto const& one : party.addresses) {
        entries_.at(one).tried = false;
    }
}

Duration DialBook::pause_of(Party const& party, std::uint32_t failures, TimePoint now) {
    EXO_ASSERT(failures > 0);
    constexpr std::uint32_t doublings_max = 16; // 500 ms so often doubled is hours.
    bool is_given = false;
    bool is_promising = false;
    for (auto const& address : party.addresses) {
        auto const& entry = entries_.at(address);
        is_given = is_given || entry.found.origin == Origin::given;
        bool const is_recent =
            !entry.failing_since || now - *entry.failing_since < limits_.patience;
        is_promising = is_promising || (entry.found.origin == Origin::heard && is_recent);
    }
    bool const is_urgent = !party.connected && (is_given || is_promising);
    auto const longest = is_urgent ? limits_.pause_max : limits_.pause_slow;
    auto const doublings = std::min(failures, doublings_max + 1) - 1;
    auto const pause = std::min(longest, limits_.pause_first * (1 << doublings));
    // Two that dial each other, or many that lost the same peer, shall not stay in step.
    return pause * static_cast<int>(80 + random_.below(41)) / 100;
}

void DialBook::connected(PeerId const& peer, Reach reach, TimePoint now) {
    auto& party = parties_[peer];
    party.connected_by = reach;
    if (party.connected) {
        return;
    }
    party.connected = true;
    party.connected_since = now;
    party.rounds_failed = 0;
    party.next = std::max(party.next, now + limits_.stagger_worse); // Others may be on their way.
    for (auto const& address : party.addresses) {
        entries_.at(address).tried = false;
    }
}

void DialBook::lost(PeerId const& peer, TimePoint now, Duration pause) {
    auto const found = parties_.find(peer);
    EXO_ASSERT(found != parties_.end());
    auto& party = found->second;
    EXO_ASSERT(party.connected);
    party.connected = false;
    if (party.addresses.empty()) {
        parties_.erase(found);
        return;
    }
    for (auto const& address : party.addresses) {
        entries_.at(address).tried = false;
        entries_.at(address).failing_since.reset(); // It was alive just now.
    }
    party.rounds_failed = 0;
    if (now - party.connected_since >= limits_.settled) {
        party.short_lives = 0;
    } else {
        ++party.short_lives;
        pause = std::max(pause, pause_of(party, party.short_lives, now));
    }
    party.next = now + pause;
}

// --- What others ask ---

std::vector<Multiaddr> DialBook::known(PeerId const& peer) const {
    std::vector<Multiaddr> result;
    auto const party = parties_.find(peer);
    if (party == parties_.end()) {
        return result;
    }
    for (auto const& address : party->second.addresses) {
        auto const& entry = entries_.at(address);
        auto const ip = ip_of(address);
        if (ip && may_lead_elsewhere(*ip) && entry.found.origin != Origin::told) {
            result.push_back(address);
        }
    }
    auto const worth = [this](Multiaddr const& address) {
        auto const& entry = entries_.at(address);
        return std::tuple(!entry.answered, entry.found.reach, address);
    };
    std::ranges::sort(result, {}, worth);
    return result;
}

std::vector<DialFacts> DialBook::facts() const {
    std::vector<DialFacts> result;
    for (auto const& [address, entry] : entries_) {
        auto const& party = parties_.at(party_of(address, entry));
        result.push_back(
            {.address = address,
             .peer = entry.peer,
             .given = entry.found.origin == Origin::given,
             .connected = party.connected,
             .reached = entry.answered,
             .failures = entry.failures,
             .error = entry.ourselves ? "this node itself" : entry.error}
        );
    }
    return result;
}

} // namespace exo::net
