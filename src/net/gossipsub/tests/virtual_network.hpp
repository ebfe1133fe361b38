// SPDX-License-Identifier: Apache-2.0
//
// Many routers on a virtual network and clock: links with delays, messages that are lost, nodes
// that go and come back, partitions. Repeatable by its seed.
//
// Each link is one stream in each direction: RPCs arrive in order and late. Of a lost RPC only the
// messages are lost, as when a queue is too slow: the rest of a stream comes as long as it lives.
#pragma once

#include "gossip_fixture.hpp"

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace exo::net::gossipsub {

class VirtualNetwork {
public:
    using NodeIndex = std::uint8_t;

    struct Options {
        std::uint64_t seed = 0;
        NodeIndex nodes = 16;
        std::uint64_t neighbours = 8; // That each node links to, at random, beside a ring.
        std::uint64_t loss_percent = 0;
    };

    explicit VirtualNetwork(Options const& options)
        : options_(options)
        , random_(options.seed) {
        for (NodeIndex i = 0; i < options_.nodes; ++i) {
            ids_.push_back(peer(number_of(i)));
            numbers_[ids_[i]] = i;
            nodes_.push_back(make_node(i));
        }
        for (NodeIndex i = 0; i < options_.nodes; ++i) {
            link(i, static_cast<NodeIndex>((i + 1) % options_.nodes));
            for (std::uint64_t k = 1; k < options_.neighbours; ++k) {
                link(i, some_node());
            }
        }
        for (auto const& [a, b] : links_) {
            connect(a, b);
        }
        for (auto& node : nodes_) {
            node.router.subscribe("a", now_);
        }
        flush();
    }

    void publish(NodeIndex i, std::string const& text) {
        ASSERT_TRUE(nodes_[i].router.publish("a", as_bytes(text), now_));
        flush();
    }

    // Runs all that is due, heartbeats included.
    void run_for(Duration time) {
        auto const end = now_ + time;
        while (true) {
            auto const beat = next_heartbeat();
            auto const rpc_time = wire_.empty() ? TimePoint::max() : std::get<0>(first());
            if (std::min(beat, rpc_time) > end) {
                break;
            }
            now_ = std::max(now_, std::min(beat, rpc_time));
            rpc_time <= beat ? deliver() : heartbeat();
            flush();
        }
        now_ = end;
    }

    void lose(std::uint64_t percent) { options_.loss_percent = percent; }

    // Without a word, as when its power fails.
    void stop(NodeIndex i) {
        nodes_[i].up = false;
        for (auto const& [a, b] : links_) {
            if ((a == i && nodes_[b].up) || (b == i && nodes_[a].up)) {
                disconnect(a, b);
            }
        }
    }

    // Anew, with nothing of what it knew.
    void start_again(NodeIndex i) {
        auto const incarnation = nodes_[i].incarnation + 1;
        nodes_[i] = make_node(i);
        nodes_[i].incarnation = incarnation;
        nodes_[i].router.subscribe("a", now_);
        for (auto const& [a, b] : links_) {
            if ((a == i && nodes_[b].up) || (b == i && nodes_[a].up)) {
                connect(a, b);
            }
        }
        flush();
    }

    // Nodes below `first_of_others` and the others do not hear each other until heal().
    void split(NodeIndex first_of_others) {
        split_at_ = first_of_others;
        for_each_cut_link([this](NodeIndex a, NodeIndex b) { disconnect(a, b); });
    }

    void heal() {
        for_each_cut_link([this](NodeIndex a, NodeIndex b) { connect(a, b); });
        split_at_ = 0;
        flush();
    }

    [[nodiscard]] NodeIndex some_node() {
        return static_cast<NodeIndex>(random_.below(options_.nodes));
    }

    [[nodiscard]] bool is_up(NodeIndex i) const { return nodes_[i].up; }

    [[nodiscard]] int incarnation(NodeIndex i) const { return nodes_[i].incarnation; }

    [[nodiscard]] std::set<PeerId> mesh(NodeIndex i) const { return nodes_[i].router.mesh("a"); }

    [[nodiscard]] std::size_t subscribers_count(NodeIndex i) const {
        return nodes_[i].router.subscribers("a").size();
    }

    [[nodiscard]] NodeIndex index_of(PeerId const& id) const { return numbers_.at(id); }

    [[nodiscard]] NodeIndex node_count() const { return options_.nodes; }

    // How often the text has arrived at the node as it lives now.
    [[nodiscard]] int count_of(NodeIndex i, std::string const& text) const {
        auto const found = nodes_[i].received.find(text);
        return found == nodes_[i].received.end() ? 0 : found->second;
    }

    // No node has ever had more members in its mesh.
    [[nodiscard]] std::size_t largest_mesh() const { return largest_mesh_; }

private:
    struct Node {
        Router router;
        bool up = true;
        int incarnation = 0;
        std::map<std::string, int> received;
    };

    using Link = std::pair<NodeIndex, NodeIndex>; // The smaller first.
    using Key = std::tuple<TimePoint, std::uint64_t, NodeIndex, NodeIndex>;

    static std::uint8_t number_of(NodeIndex i) { return static_cast<std::uint8_t>(i + 1); }

    Node make_node(NodeIndex i) {
        auto const own_random = Random(options_.seed * 100 + i);
        auto const first_number = static_cast<std::uint64_t>(now_.time_since_epoch().count()) + 1;
        return {.router = Router(identity(number_of(i)), own_random, first_number, now_)};
    }

    void link(NodeIndex a, NodeIndex b) {
        if (a != b) {
            links_.emplace(std::min(a, b), std::max(a, b));
        }
    }

    template <class Act>
    void for_each_cut_link(Act const& act) {
        for (auto const& [a, b] : links_) {
            if ((a < split_at_) != (b < split_at_) && nodes_[a].up && nodes_[b].up) {
                act(a, b);
            }
        }
    }

    void connect(NodeIndex a, NodeIndex b) {
        nodes_[a].router.peer_connected(ids_[b]);
        nodes_[b].router.peer_connected(ids_[a]);
    }

    // With all that is on the way.
    void disconnect(NodeIndex a, NodeIndex b) {
        nodes_[a].router.peer_disconnected(ids_[b]);
        nodes_[b].router.peer_disconnected(ids_[a]);
        std::erase_if(wire_, [&](auto const& entry) {
            auto const& [time, order, from, to] = entry.first;
            return std::minmax(from, to) == std::minmax(a, b);
        });
    }

    Key const& first() const { return wire_.begin()->first; }

    TimePoint next_heartbeat() const {
        auto time = TimePoint::max();
        for (auto const& node : nodes_) {
            time = node.up ? std::min(time, node.router.deadline()) : time;
        }
        return time;
    }

    void heartbeat() {
        for (auto& node : nodes_) {
            if (node.up && node.router.deadline() <= now_) {
                node.router.heartbeat(now_);
            }
        }
    }

    void deliver() {
        auto const entry = wire_.extract(wire_.begin());
        auto const [time, order, from, to] = entry.key();
        auto& node = nodes_[to];
        ASSERT_TRUE(node.router.receive(ids_[from], entry.mapped(), now_));
        while (auto event = node.router.next_event()) {
            ++node.received[std::string(as_text(event->data))];
        }
        largest_mesh_ = std::max(largest_mesh_, node.router.mesh("a").size());
    }

    void flush() {
        for (NodeIndex from = 0; from < options_.nodes; ++from) {
            if (!nodes_[from].up) {
                continue;
            }
            for (auto const& id : nodes_[from].router.ready_peers()) {
                while (auto rpc = nodes_[from].router.next_rpc(id, now_)) {
                    send(from, numbers_.at(id), std::move(*rpc));
                }
            }
        }
    }

    void send(NodeIndex from, NodeIndex to, Bytes rpc) {
        if (options_.loss_percent > 0) {
            auto parsed = rpc_of(rpc);
            if (parsed.publish_size() > 0 && random_.chance(options_.loss_percent, 100)) {
                parsed.clear_publish();
                rpc = bytes_of(parsed);
            }
        }
        auto& last = last_[{from, to}];
        last = std::max(last, now_ + std::chrono::milliseconds(1 + random_.below(100)));
        wire_.emplace(Key{last, ++order_, from, to}, std::move(rpc));
    }

    Options options_;
    Random random_;
    TimePoint now_ = start;
    std::vector<PeerId> ids_;
    std::vector<Node> nodes_;
    std::set<Link> links_;
    std::map<PeerId, NodeIndex> numbers_;
    std::map<Key, Bytes> wire_;
    std::map<std::pair<NodeIndex, NodeIndex>, TimePoint> last_;
    std::uint64_t order_ = 0;
    NodeIndex split_at_ = 0;
    std::size_t largest_mesh_ = 0;
};

} // namespace exo::net::gossipsub
