// SPDX-License-Identifier: Apache-2.0
//
// The virtual network. Nodes are numbered. Every pair has a link, up or cut in each direction, and
// at most one connection, which its ends may see open and closed at different times.
//
//   direct messages  in order, without loss, held while the link is cut; what is left is lost when
//                    the connection dies
//   gossip           flooded over connections; each hop may lose, double, delay and reorder
#pragma once

#include "base/random.hpp"
#include "core/replica/message.hpp"
#include "sim/event_queue.hpp"

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace exo::sim {

using Node = std::size_t;

struct NetworkOptions {
    std::uint64_t gossip_loss_percent = 0; // A hop.
    std::uint64_t gossip_double_percent = 3;
    Duration delay_min = 200us;
    Duration delay_max = 20ms;
    std::uint64_t slow_percent = 2; // Of messages, delayed up to slow_max.
    Duration slow_max = 300ms;
    Duration dial_max = 1s; // Until an unconnected pair has found each other.
};

struct NetworkCallbacks {
    std::function<void(Node at, Node peer)> on_connected;
    std::function<void(Node at, Node peer)> on_disconnected;
    std::function<void(Node at, Node from, replica::Message const&)> on_message;
    std::function<void(Node at, Node author, replica::Gossip const&)> on_gossip;
};

class Network {
public:
    Network(
        EventQueue& queue,
        std::uint64_t seed,
        std::size_t node_count,
        NetworkOptions options,
        NetworkCallbacks callbacks
    );

    // A process begins, or has died: then its peers see their connections end at once.
    void start(Node node);
    void kill(Node node);

    void set_link(Node a, Node b, bool up);
    void set_one_way(Node from, Node to, bool up);

    // `node` gives up its connection with `peer`, who may learn of it later.
    void close(Node node, Node peer);

    void send(Node from, Node to, replica::Message message);
    void publish(Node author, replica::Gossip gossip);

    [[nodiscard]] bool connected(Node at, Node peer) const;

private:
    // One direction of a pair, or of its connection: from the lower node is 0.
    struct Pair {
        std::array<bool, 2> up{true, true};
        std::uint64_t epoch = 0;       // Of the connection, counted.
        std::array<bool, 2> open{};    // As each end sees it.
        std::array<TimePoint, 2> last; // When the newest message of a direction arrives.
        std::array<std::deque<std::function<void()>>, 2> held; // While the link is cut.
    };

    struct Flooded {
        std::uint64_t id = 0;
        Node author = 0;
        replica::Gossip gossip;
    };

    [[nodiscard]] Pair& pair(Node a, Node b) { return pairs_[std::min(a, b)][std::max(a, b)]; }

    [[nodiscard]] Pair const& pair(Node a, Node b) const {
        return pairs_[std::min(a, b)][std::max(a, b)];
    }

    // Of `from` as an end, and of the direction away from it.
    [[nodiscard]] static std::size_t side(Node from, Node to) { return from < to ? 0 : 1; }

    [[nodiscard]] Duration delay();
    void dial_later(Node a, Node b);
    void connect(Node a, Node b);
    void close_end(Node node, Node peer);
    // After everything sent before it in this direction.
    void in_order(Node from, Node to, std::function<void()> action);
    void arrive(Node from, Node to, std::uint64_t epoch, std::function<void()> action);
    void flood(Node at, Node except, std::shared_ptr<Flooded const> const& message);

    EventQueue& queue_;
    Random random_;
    NetworkOptions options_;
    NetworkCallbacks callbacks_;
    std::vector<bool> running_;
    std::vector<std::vector<Pair>> pairs_;
    std::vector<std::set<std::uint64_t>> seen_; // Gossip, by the present process of each node.
    std::uint64_t gossip_count_ = 0;
};

} // namespace exo::sim
