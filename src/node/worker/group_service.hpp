// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of one instance's generation find each other. Each rank's runner listens on a port
// of the system's choice; rank r's node tells rank 0's node, which answers all when the group is
// complete, with the addresses and the key that it made. Nothing of it enters the log.
//
// One thread; registers group_protocol with the host, so it is made before host.start().
#pragma once

#include "model/instance.hpp"
#include "net/host/host.hpp"
#include "node/messages.hpp"
#include "node/scope.hpp"

#include <functional>
#include <map>
#include <optional>

namespace exo::node {

class GroupService {
public:
    // Tells whether `node` is rank `rank` of the instance, as far as this node knows. A joiner
    // that is not (yet) is refused and asks again.
    using IsRank = std::function<
        bool(model::NodeId const& node, model::InstanceId const&, std::uint32_t rank)>;

    static constexpr Duration join_limit = 60s; // All ranks must have started by then.
    static constexpr Duration retry_interval = 1s;
    static constexpr std::size_t groups_max = 64;

    GroupService(net::Host& host, IsRank is_rank);

    // Rank 0: completes when all other ranks have joined. Errors: timed_out, naming the ranks that
    // are missing; limit.
    asio::awaitable<Result<ipc::Connect>> host_group(
        model::InstanceId instance,
        model::Generation generation,
        std::uint32_t world_size,
        ipc::RankEndpoint own
    );

    // Another rank. Errors: timed_out with the last reason.
    asio::awaitable<Result<ipc::Connect>> join_group(model::NodeId rank_0, JoinGroup join);

private:
    using Key = std::pair<model::InstanceId, model::Generation>;

    struct Group {
        std::uint32_t world_size = 0; // 0: the own runner does not listen yet.
        std::string key_hex;
        std::map<std::uint32_t, ipc::RankEndpoint> endpoints;
        TimePoint touched;

        [[nodiscard]] bool complete() const {
            return world_size > 0 && endpoints.size() == world_size;
        }
    };

    asio::awaitable<void> serve(std::unique_ptr<net::Stream> stream);
    asio::awaitable<bool> wait_until_complete(Key key);
    [[nodiscard]] Result<Group*> group(Key const& key);
    [[nodiscard]] static ipc::Connect plan(Group const& group);

    net::Host& host_;
    IsRank is_rank_;
    std::map<Key, Group> groups_;
    Notify joined_;
};

} // namespace exo::node
