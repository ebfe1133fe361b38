// SPDX-License-Identifier: Apache-2.0
#include "net/diagnosis/link_log.hpp"

#include <algorithm>
#include <functional>

namespace exo::net {
namespace {

std::size_t hash_of(BytesView packet) {
    return std::hash<std::string_view>{}(as_text(packet));
}

// Of more than `count_max` the oldest goes.
template <class Key>
void remember(
    std::map<Key, TimePoint>& times, Key const& key, TimePoint now, std::size_t count_max
) {
    times[key] = now;
    if (times.size() > count_max) {
        times.erase(std::ranges::min_element(times, {}, [](auto const& entry) {
            return entry.second;
        }));
    }
}

} // namespace

void LinkLog::set_addresses(std::vector<InterfaceAddress> addresses) {
    facts_.addresses = std::move(addresses);
}

void LinkLog::sent(BytesView packet) {
    ++facts_.packets_sent;
    sent_.push_back(hash_of(packet));
    if (sent_.size() > sent_kept) {
        sent_.pop_front();
    }
}

void LinkLog::received(
    BytesView packet, std::string const& ip, bool is_this_machine, TimePoint now
) {
    if (!is_this_machine) {
        remember(facts_.heard, ip, now, heard_max);
        return;
    }
    auto const own = std::ranges::find(sent_, hash_of(packet));
    if (own != sent_.end()) {
        sent_.erase(own);
        ++facts_.packets_looped;
    }
}

bool LinkLog::met_twin(Multiaddr const& address, TimePoint now) {
    bool const is_new = !facts_.twins.contains(address);
    remember(facts_.twins, address, now, twins_max);
    return is_new;
}

} // namespace exo::net
