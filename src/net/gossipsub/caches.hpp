// SPDX-License-Identifier: Apache-2.0
//
// What gossipsub remembers: ids seen lately, and the last messages whole, for IHAVE and IWANT.
// Pure.
#pragma once

#include "base/time.hpp"
#include "net/gossipsub/limits.hpp"
#include "net/gossipsub/message.hpp"

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace exo::net::gossipsub {

// Ids of messages and when each came. Beyond `entries_max` the oldest is forgotten, so that a flood
// costs a repeated delivery at worst, not memory.
class SeenCache {
public:
    SeenCache(Duration kept, std::size_t entries_max)
        : kept_(kept)
        , entries_max_(entries_max) {}

    SeenCache(SeenCache&&) = default; // Not copied: the order points into the map.
    SeenCache& operator=(SeenCache&&) = default;

    // False if it is there already; its time stays that of the first.
    bool insert(MessageId const& id, TimePoint now);

    [[nodiscard]] bool contains(std::string_view id) const { return times_.contains(id); }

    void expire(TimePoint now);

    [[nodiscard]] std::size_t size() const { return times_.size(); }

private:
    void forget_oldest();

    using Times = std::map<MessageId, TimePoint, std::less<>>;

    Duration kept_;
    std::size_t entries_max_;
    Times times_;
    std::deque<Times::iterator> order_; // Of all entries, the oldest first.
};

// The messages of the last heartbeats. Beyond `bytes_max` (each counts for its bytes and
// message_overhead_bytes) the oldest go early.
class MessageCache {
public:
    // REQUIRES: heartbeats > 0.
    MessageCache(std::size_t heartbeats, std::size_t bytes_max);

    MessageCache(MessageCache&&) = default; // As above.
    MessageCache& operator=(MessageCache&&) = default;

    void put(SignedMessage const& message);

    // Null if it is not there (any more).
    [[nodiscard]] std::shared_ptr<Bytes const> find(std::string_view id) const;

    // Ids of the topic from the newest `heartbeats`, oldest first.
    [[nodiscard]] std::vector<MessageId>
    ids(std::string const& topic, std::size_t heartbeats) const;

    // A heartbeat has passed.
    void shift();

    [[nodiscard]] std::size_t bytes_count() const { return bytes_count_; }

private:
    struct Entry {
        std::string topic;
        std::shared_ptr<Bytes const> encoded;
        std::uint64_t heartbeat = 0;
    };

    using Entries = std::map<MessageId, Entry, std::less<>>;

    void forget_oldest();

    std::size_t heartbeats_;
    std::size_t bytes_max_;
    std::uint64_t heartbeat_ = 0;
    std::size_t bytes_count_ = 0;
    Entries entries_;
    std::deque<Entries::iterator> order_; // Of all entries, the oldest first.
};

} // namespace exo::net::gossipsub
