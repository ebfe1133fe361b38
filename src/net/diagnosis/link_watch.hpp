// SPDX-License-Identifier: Apache-2.0
//
// Which nodes do not see each other, and since when: from what each says of its own connections.
// What they say is seconds old, so a difference counts only once it has lasted. Pure; the node
// updates it every few seconds.
#pragma once

#include "net/diagnosis/diagnosis.hpp"

#include <map>
#include <span>
#include <utility>
#include <vector>

namespace exo::net {

class LinkWatch {
public:
    // Of more nodes than that only the first are compared with each other.
    static constexpr std::size_t nodes_max = 128;

    // `neighbours`: all nodes, this one too.
    void update(std::span<Neighbour const> neighbours, TimePoint now);

    [[nodiscard]] std::vector<MissingLink> missing() const;

private:
    struct Entry {
        bool one_way = false;
        TimePoint since;
    };

    using Pair =
        std::pair<PeerId, PeerId>; // From, to; the smaller first if neither sees the other.

    std::map<Pair, Entry> entries_;
};

} // namespace exo::net
