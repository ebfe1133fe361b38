// SPDX-License-Identifier: Apache-2.0
#include "net/gossipsub/caches.hpp"

#include "base/assert.hpp"

namespace exo::net::gossipsub {

bool SeenCache::insert(MessageId const& id, TimePoint now) {
    if (!times_.emplace(id, now).second) {
        return false;
    }
    order_.push_back(id);
    if (order_.size() > entries_max_) {
        forget_oldest();
    }
    return true;
}

void SeenCache::expire(TimePoint now) {
    while (!order_.empty() && times_.at(order_.front()) + kept_ <= now) {
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
    if (!entries_.emplace(message.id, std::move(entry)).second) {
        return;
    }
    order_.push_back(message.id);
    bytes_count_ += message.encoded->size();
    while (bytes_count_ > bytes_max_) {
        forget_oldest();
    }
}

std::shared_ptr<Bytes const> MessageCache::find(MessageId const& id) const {
    auto const found = entries_.find(id);
    return found == entries_.end() ? nullptr : found->second.encoded;
}

std::vector<MessageId> MessageCache::ids(std::string const& topic, std::size_t heartbeats) const {
    std::vector<MessageId> found;
    for (auto const& id : order_) {
        auto const& entry = entries_.at(id);
        if (entry.topic == topic && entry.heartbeat + heartbeats > heartbeat_) {
            found.push_back(id);
        }
    }
    return found;
}

void MessageCache::shift() {
    ++heartbeat_;
    while (!order_.empty() && entries_.at(order_.front()).heartbeat + heartbeats_ <= heartbeat_) {
        forget_oldest();
    }
}

void MessageCache::forget_oldest() {
    EXO_ASSERT(!order_.empty());
    auto const entry = entries_.find(order_.front());
    EXO_ASSERT(entry != entries_.end());
    bytes_count_ -= entry->second.encoded->size();
    entries_.erase(entry);
    order_.pop_front();
}

} // namespace exo::net::gossipsub
