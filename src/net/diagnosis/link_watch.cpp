// SPDX-License-Identifier: Apache-2.0
#include "net/diagnosis/link_watch.hpp"

#include <algorithm>

namespace exo::net {
namespace {

bool sees(Neighbour const& from, PeerId const& to) {
    return std::ranges::find(from.links, to, &Neighbour::Link::peer) != from.links.end();
}

} // namespace

void LinkWatch::update(std::span<Neighbour const> neighbours, TimePoint now) {
    std::map<Pair, Entry> entries;
    auto const nodes = neighbours.first(std::min(neighbours.size(), nodes_max));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        for (std::size_t j = i + 1; j < nodes.size(); ++j) {
            bool const there = sees(nodes[i], nodes[j].peer);
            bool const back = sees(nodes[j], nodes[i].peer);
            if (there && back) {
                continue;
            }
            auto pair = std::minmax(nodes[i].peer, nodes[j].peer);
            Pair key = there  ? Pair(nodes[i].peer, nodes[j].peer)
                       : back ? Pair(nodes[j].peer, nodes[i].peer)
                              : Pair(pair.first, pair.second);
            auto const known = entries_.find(key);
            bool const is_same =
                known != entries_.end() && known->second.one_way == (there || back);
            auto const since = is_same ? known->second.since : now;
            entries.emplace(std::move(key), Entry{.one_way = there || back, .since = since});
        }
    }
    entries_ = std::move(entries);
}

std::vector<MissingLink> LinkWatch::missing() const {
    std::vector<MissingLink> links;
    for (auto const& [pair, entry] : entries_) {
        links.push_back(
            {.from = pair.first, .to = pair.second, .one_way = entry.one_way, .since = entry.since}
        );
    }
    return links;
}

} // namespace exo::net
