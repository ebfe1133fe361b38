// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/hearing.hpp"

namespace exo::cluster {

std::set<model::NodeId> heard_within(LastHeard const& last_heard, Duration time, TimePoint now) {
    std::set<model::NodeId> heard;
    for (auto const& [node, when] : last_heard) {
        if (now - when <= time) {
            heard.insert(node);
        }
    }
    return heard;
}

} // namespace exo::cluster
