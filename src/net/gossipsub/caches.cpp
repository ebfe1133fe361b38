// SPDX-License-Identifier: Apache-2.0
#include "net/gossipsub/caches.hpp"

#include "base/assert.hpp"

#include <algorithm>

namespace exo::net::gossipsub {

bool SeenCache::insert(MessageId const& id, TimePoint now) {
    auto const [entry, is_new] = times_.emplace(id, now);
    if (!is_new) {
        return false;
    }
    order_.push_back(entry);
    if (order_.size() > entries_max_) {
        forget_oldest();
    }
    return true;
}

void SeenCache::expire(TimePoint now) {
    while (!order_.empty() && order_.front()->second + kept_ <= now) {
        forget_oldest();
    }
}

void SeenCache::forget_oldest() {
    times_.erase(order_.front());
    order_.pop_front();
    EXO_ASSERT(times_.size() == order_.size());
}

MessageCache::MessageCache(std::size_t heartbeats, std::size_t bytes_max)
    : heartbeats_(heartbeats)
    , bytes_max_(bytes_max) {
    EXO_ASSERT(heartbeats_ > 0);
}

void MessageCache::put(SignedMessage const& message) {
    Entry entry{.topic = message.topic, .encoded = message.encoded, .heartbeat = heartbeat_};
    auto const [added, is_new] = entries_.emplace(message.id, std::move(entry));
    if (!is_new) {
        return;
    }
    order_.push_back(added);
    bytes_count_ += message.encoded->size() + message_overhead_bytes;
    while (bytes_count_ > bytes_max_) {
        forget_oldest();
    }
}

std::shared_ptr<Bytes const> MessageCache::find(std::string_view id) const {
    auto const found = entries_.find(id);
    return found == entries_.end() ? nullptr : found->second.encoded;
}

std::vector<MessageId> MessageCache::ids(std::string const& topic, std::size_t heartbeats) const {
    auto const is_old = [&](auto const& it) {
        return it->second.heartbeat + heartbeats <= heartbeat_;
    };
    auto const first = std::ranges::partition_point(order_, is_old);
    std::vector<MessageId> found;
    for (auto it = first; it != order_.end(); ++it) {
        if ((*it)->second.topic == topic) {
            found.push_back((*it)->first);
        }
    }
    return found;
}

void MessageCache::shift() {
    ++heartbeat_;
    while (!order_.empty() && order_.front()->second.heartbeat + heartbeats_ <= heartbeat_) {
        forget_oldest();
    }
}

void MessageCache::forget_oldest() {
    EXO_ASSERT(!order_.empty());
    auto const entry = order_.front();
    bytes_count_ -= entry->second.encoded->size() + message_overhead_bytes;
    entries_.erase(entry);
    order_.pop_front();
}

} // namespace exo::net::gossipsub
