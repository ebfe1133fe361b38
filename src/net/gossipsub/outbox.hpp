// SPDX-License-Identifier: Apache-2.0
//
// What waits to be sent to one peer, and its packing into RPCs. Pure; owned by the Router.
//
// Announcements and mesh changes are kept as the last word on each topic, so they cannot pile up;
// gossip (IHAVE, IWANT, IDONTWANT) may be lost and is dropped when the peer does not read; of
// messages the oldest go first, and each has a time after which nobody wants it any more.
#pragma once

#include "base/bytes.hpp"
#include "base/time.hpp"
#include "net/gossipsub/limits.hpp"
#include "net/gossipsub/message.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace exo::net::gossipsub {

namespace pb { // Of rpc.proto; only outbox.cpp includes the generated header.
class Control;
} // namespace pb

// The size of an RPC that holds only this message.
[[nodiscard]] std::size_t rpc_bytes_of(std::size_t message_bytes);

class Outbox {
public:
    using Unwanted = std::map<MessageId, TimePoint, std::less<>>; // Until when.

    explicit Outbox(OutboxLimits const& limits)
        : limits_(limits) {}

    // What others send as well may wait a moment for more; everything else is urgent.
    enum class Haste { urgent, may_wait };

    void announce(std::string const& topic, bool subscribed);
    void graft(std::string const& topic);
    void prune(std::string const& topic, Duration backoff);
    void ihave(std::string const& topic, std::vector<MessageId> const& ids);
    void iwant(MessageId const& id);
    void dont_want(MessageId const& id);

    // Not to be sent after `expiry`. REQUIRES: it alone fits the limit of the queue.
    void push(
        MessageId const& id,
        std::shared_ptr<Bytes const> encoded,
        TimePoint expiry,
        Haste haste = Haste::urgent
    );

    void drop_expired(TimePoint now);

    // How many messages were dropped for lack of room or time since the last call.
    [[nodiscard]] std::size_t take_dropped_count() { return std::exchange(dropped_count_, 0); }

    // Something waits; it may still be unwanted.
    [[nodiscard]] bool empty() const;

    [[nodiscard]] bool is_urgent() const { return urgent_; }

    [[nodiscard]] bool has_messages() const { return !messages_.empty(); }

    // What messages that wait count for.
    [[nodiscard]] std::size_t bytes_count() const { return bytes_count_; }

    // The next RPC, without those messages that the peer does not want.
    [[nodiscard]] std::optional<Bytes> take(Unwanted const& unwanted, TimePoint now);

private:
    struct Queued {
        MessageId id;
        std::shared_ptr<Bytes const> encoded; // Shared with the cache and other peers' queues.
        TimePoint expiry;
    };

    void take_announcements(Bytes& rpc);
    [[nodiscard]] Bytes take_control();
    void take_gossip(pb::Control& control);
    void take_mesh_changes(pb::Control& control);
    void take_messages(Bytes& rpc, Unwanted const& unwanted, TimePoint now);
    [[nodiscard]] bool has_control() const;
    [[nodiscard]] bool has_room(std::size_t id_bytes);
    void pop_message();

    OutboxLimits limits_;
    std::map<std::string, bool> announcements_;
    std::map<std::string, std::optional<Duration>> mesh_changes_; // Empty: graft.
    std::map<std::string, std::vector<MessageId>> ihave_;
    std::vector<MessageId> iwant_;
    std::vector<MessageId> dont_want_;
    std::size_t gossip_bytes_ = 0; // Of ihave_, iwant_ and dont_want_.
    std::deque<Queued> messages_;
    std::size_t bytes_count_ = 0;
    std::size_t dropped_count_ = 0;
    bool urgent_ = false;
};

} // namespace exo::net::gossipsub
