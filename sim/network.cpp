// SPDX-License-Identifier: Apache-2.0
#include "sim/network.hpp"

#include <algorithm>

namespace exo::sim {

Network::Network(
    EventQueue& queue,
    std::uint64_t seed,
    std::size_t node_count,
    NetworkOptions options,
    NetworkCallbacks callbacks
)
    : queue_(queue)
    , random_(seed)
    , options_(options)
    , callbacks_(std::move(callbacks))
    , running_(node_count, false)
    , pairs_(node_count, std::vector<Pair>(node_count))
    , seen_(node_count) {}

Duration Network::delay() {
    auto const spread = options_.delay_max - options_.delay_min;
    auto const usual = options_.delay_min +
                       Duration(random_.below(static_cast<std::uint64_t>(spread.count()) + 1));
    if (random_.below(100) >= options_.slow_percent) {
        return usual;
    }
    return usual +
           Duration(random_.below(static_cast<std::uint64_t>(options_.slow_max.count()) + 1));
}

// --- Connections ---

void Network::start(Node node) {
    running_[node] = true;
    seen_[node].clear();
    for (Node peer = 0; peer < running_.size(); ++peer) {
        if (peer != node) {
            dial_later(node, peer);
        }
    }
}

void Network::kill(Node node) {
    running_[node] = false;
    for (Node peer = 0; peer < running_.size(); ++peer) {
        if (peer != node) {
            close_end(node, peer);
        }
    }
}

void Network::set_link(Node a, Node b, bool up) {
    set_one_way(a, b, up);
    set_one_way(b, a, up);
}

void Network::set_one_way(Node from, Node to, bool up) {
    auto& link = pair(from, to);
    auto const direction = side(from, to);
    link.up[direction] = up;
    if (!up) {
        return;
    }
    auto held = std::exchange(link.held[direction], {});
    for (auto& action : held) {
        in_order(from, to, std::move(action));
    }
    dial_later(from, to);
}

void Network::dial_later(Node a, Node b) {
    auto const wait = random_.below(static_cast<std::uint64_t>(options_.dial_max.count()));
    queue_.after(Duration(wait), [this, a, b] { connect(a, b); });
}

void Network::connect(Node a, Node b) {
    auto& link = pair(a, b);
    bool const possible = running_[a] && running_[b] && link.up[0] && link.up[1];
    if (!possible || link.open[0] || link.open[1]) {
        return;
    }
    ++link.epoch;
    link.open = {true, true};
    link.last = {queue_.now(), queue_.now()};
    link.held = {};
    callbacks_.on_connected(a, b);
    in_order(a, b, [this, a, b] { callbacks_.on_connected(b, a); });
}

void Network::close(Node node, Node peer) {
    if (pair(node, peer).open[side(node, peer)]) {
        close_end(node, peer);
        callbacks_.on_disconnected(node, peer);
    }
}

void Network::close_end(Node node, Node peer) {
    auto& link = pair(node, peer);
    if (!link.open[side(node, peer)]) {
        return;
    }
    link.open[side(node, peer)] = false;
    if (link.open[side(peer, node)]) {
        in_order(node, peer, [this, node, peer] { close(peer, node); });
    } else {
        dial_later(node, peer);
    }
}

bool Network::connected(Node at, Node peer) const {
    return pair(at, peer).open[side(at, peer)];
}

// --- Direct messages ---

void Network::in_order(Node from, Node to, std::function<void()> action) {
    auto& link = pair(from, to);
    auto& last = link.last[side(from, to)];
    last = std::max(last, queue_.now() + delay());
    auto const epoch = link.epoch;
    queue_.at(last, [this, from, to, epoch, action = std::move(action)] {
        arrive(from, to, epoch, action);
    });
}

void Network::arrive(Node from, Node to, std::uint64_t epoch, std::function<void()> action) {
    auto& link = pair(from, to);
    if (link.epoch != epoch || !link.open[side(to, from)]) {
        return;
    }
    auto& held = link.held[side(from, to)];
    if (!link.up[side(from, to)] || !held.empty()) {
        held.push_back(std::move(action));
    } else {
        action();
    }
}

void Network::send(Node from, Node to, replica::Message message) {
    if (connected(from, to)) {
        in_order(from, to, [this, from, to, message = std::move(message)] {
            callbacks_.on_message(to, from, message);
        });
    }
}

// --- Gossip ---

void Network::publish(Node author, replica::Gossip gossip) {
    auto const message =
        std::make_shared<Flooded const>(Flooded{++gossip_count_, author, std::move(gossip)});
    seen_[author].insert(message->id);
    flood(author, author, message);
}

void Network::flood(Node at, Node except, std::shared_ptr<Flooded const> const& message) {
    for (Node peer = 0; peer < running_.size(); ++peer) {
        if (peer == except || peer == at || !connected(at, peer)) {
            continue;
        }
        std::size_t const copies = 1 + (random_.below(100) < options_.gossip_double_percent);
        for (std::size_t i = 0; i < copies; ++i) {
            if (random_.below(100) < options_.gossip_loss_percent) {
                continue;
            }
            auto const epoch = pair(at, peer).epoch;
            queue_.after(delay(), [this, at, peer, epoch, message] {
                auto const& link = pair(at, peer);
                bool const arrives =
                    link.epoch == epoch && link.open[side(peer, at)] && link.up[side(at, peer)];
                if (arrives && seen_[peer].insert(message->id).second) {
                    callbacks_.on_gossip(peer, message->author, message->gossip);
                    flood(peer, at, message);
                }
            });
        }
    }
}

} // namespace exo::sim
