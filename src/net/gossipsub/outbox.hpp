// SPDX-License-Identifier: Apache-2.0
//
// What waits to be sent to one peer, and its packing into RPCs. Pure; owned by the Router.
//
// Announcements and mesh changes are kept as the last word on each topic, so they cannot pile up;
// gossip (IHAVE, IWANT, IDONTWANT) may be lost and is dropped when the peer does not read; of
// messages the oldest go first.
#pragma once

#include "base/bytes.hpp"
#include "base/time.hpp"
#include "net/gossipsub/message.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace exo::net::gossipsub {

// Messages are packed into one RPC up to this size, a larger one travels alone: a stream of small
// RPCs lets other streams of the connection have their turn.
constexpr std::size_t rpc_bytes_packed = 64 * 1024;
// Of IHAVE, IWANT and IDONTWANT that wait: 5000 ids of 70 bytes, three times.
constexpr std::size_t gossip_bytes_max = 1024 * 1024;

// The size of an RPC that holds only this message.
[[nodiscard]] std::size_t rpc_bytes_of(std::size_t message_bytes);

class Outbox {
public:
    void announce(std::string const& topic, bool subscribed) { announcements_[topic] = subscribed; }

    void graft(std::string const& topic) { mesh_changes_[topic] = std::nullopt; }

    void prune(std::string const& topic, Duration backoff) { mesh_changes_[topic] = backoff; }

    void ihave(std::string const& topic, std::vector<MessageId> const& ids);
    void iwant(MessageId const& id);
    void dont_want(MessageId const& id);

    // Returns how many older messages had to go for it. REQUIRES: it alone fits `bytes_max`.
    std::size_t push(
        MessageId const& id,
        std::shared_ptr<Bytes const> encoded,
        TimePoint now,
        std::size_t bytes_max
    );

    // Returns how many were dropped: those queued before `time`.
    std::size_t drop_before(TimePoint time);

    // Something waits; it may still be unwanted.
    [[nodiscard]] bool empty() const;

    // Messages that wait, and their bytes.
    [[nodiscard]] std::size_t message_count() const { return messages_.size(); }

    [[nodiscard]] std::size_t bytes_count() const { return bytes_count_; }

    // The next RPC, without those messages that the peer does not want.
    [[nodiscard]] std::optional<Bytes> take(std::map<MessageId, TimePoint> const& unwanted);

private:
    struct Queued {
        MessageId id;
        std::shared_ptr<Bytes const> encoded; // Shared with the cache and other peers' queues.
        TimePoint since;
    };

    void take_announcements(Bytes& rpc);
    void take_messages(Bytes& rpc, std::map<MessageId, TimePoint> const& unwanted);
    [[nodiscard]] Bytes take_control();
    [[nodiscard]] bool has_control() const;
    [[nodiscard]] bool has_room(std::size_t id_bytes);
    void pop_message();

    std::map<std::string, bool> announcements_;
    std::map<std::string, std::optional<Duration>> mesh_changes_; // Empty: graft.
    std::map<std::string, std::vector<MessageId>> ihave_;
    std::vector<MessageId> iwant_;
    std::vector<MessageId> dont_want_;
    std::size_t gossip_bytes_ = 0;
    std::deque<Queued> messages_;
    std::size_t bytes_count_ = 0;
};

} // namespace exo::net::gossipsub
