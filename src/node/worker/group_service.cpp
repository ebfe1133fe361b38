// SPDX-License-Identifier: Apache-2.0
#include "node/worker/group_service.hpp"

#include "base/bytes.hpp"
#include "base/entropy.hpp"
#include "base/log.hpp"
#include "model/json.hpp"
#include "net/host/async.hpp"
#include "node/direct.hpp"
#include "node/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace exo::node {
namespace {

constexpr std::size_t key_bytes = 32;
// A group that nobody has asked about for so long is of an earlier generation.
constexpr Duration group_kept = 5min;

using net::now;

std::string random_key_hex() {
    std::array<std::uint8_t, key_bytes> key{};
    fill_random(key);
    return to_hex(key);
}

} // namespace

GroupService::GroupService(net::Host& host, IsRank is_rank)
    : host_(host)
    , is_rank_(std::move(is_rank)) {
    host_.handle(group_protocol, [this](std::unique_ptr<net::Stream> stream) {
        return serve(std::move(stream));
    });
}

Result<GroupService::Group*> GroupService::group(Key const& key) {
    std::erase_if(groups_, [](auto const& entry) {
        return now() - entry.second.touched > group_kept;
    });
    if (!groups_.contains(key) && groups_.size() >= groups_max) {
        return Error(
            Errc::limit, fmt::format("{} groups are starting on this node already", groups_.size())
        );
    }
    auto& group = groups_[key];
    group.touched = now();
    return &group;
}

ipc::Connect GroupService::plan(Group const& group) {
    ipc::Connect connect;
    connect.key_hex = group.key_hex;
    for (auto const& [rank, endpoint] : group.endpoints) {
        connect.endpoints.push_back(endpoint); // The map is in rank order.
    }
    return connect;
}

asio::awaitable<bool> GroupService::wait_until_complete(Key key) {
    auto const deadline = now() + join_limit;
    while (now() < deadline) {
        auto const group = groups_.find(key);
        if (group == groups_.end()) {
            co_return false;
        }
        if (group->second.complete()) {
            co_return true;
        }
        co_await joined_.wait(retry_interval);
    }
    co_return false;
}

asio::awaitable<Result<ipc::Connect>> GroupService::host_group(
    model::InstanceId instance,
    model::Generation generation,
    std::uint32_t world_size,
    ipc::RankEndpoint own
) {
    Key const key(instance, generation);
    auto const entered = group(key);
    if (!entered) {
        co_return entered.error();
    }
    auto& mine = **entered;
    mine.world_size = world_size;
    mine.key_hex = random_key_hex();
    mine.endpoints.insert_or_assign(0, std::move(own));
    joined_.notify();
    if (!co_await wait_until_complete(key)) {
        std::string missing;
        for (std::uint32_t rank = 1; rank < world_size; ++rank) {
            if (!groups_[key].endpoints.contains(rank)) {
                missing += fmt::format(" {}", rank);
            }
        }
        co_return Error(
            Errc::timed_out,
            fmt::format("the runners of ranks{} did not join within {} s", missing, join_limit / 1s)
        );
    }
    co_return plan(groups_[key]);
}

asio::awaitable<Result<ipc::Connect>>
GroupService::join_group(model::NodeId rank_0, JoinGroup join) {
    auto const peer = net::PeerId::parse(rank_0.value());
    if (!peer) {
        co_return peer.error();
    }
    Error last(Errc::timed_out, "it was not asked");
    auto const deadline = now() + join_limit;
    while (now() < deadline) {
        auto answer = co_await ask(
            host_,
            *peer,
            group_protocol,
            model::to_msgpack(join),
            small_message_bytes_max,
            join_limit
        );
        if (answer) {
            auto complete = model::from_msgpack<GroupComplete>(*answer);
            if (complete) {
                co_return std::move(complete->connect);
            }
            last = complete.error();
        } else {
            last = answer.error();
        }
        co_await sleep_for(retry_interval);
    }
    co_return Error(
        Errc::timed_out,
        fmt::format("rank 0 on node {} did not admit us: {}", rank_0.value(), last.text())
    );
}

asio::awaitable<void> GroupService::serve(std::unique_ptr<net::Stream> stream) {
    auto const question = co_await net::read_message(*stream, small_message_bytes_max);
    if (!question) {
        co_return;
    }
    auto const join = model::from_msgpack<JoinGroup>(*question);
    if (!join) {
        log::warning("node", "a node sent a malformed JoinGroup: {}", join.error().text());
        co_return; // Dropping the stream resets it; the rank asks again.
    }
    model::NodeId const asker(stream->peer().text());
    if (join->device_rank == 0 || !is_rank_(asker, join->instance_id, join->device_rank)) {
        co_return;
    }
    Key const key(join->instance_id, join->generation);
    auto const entered = group(key);
    if (!entered) {
        co_return;
    }
    (*entered)->endpoints.insert_or_assign(join->device_rank, join->endpoint);
    joined_.notify();
    if (!co_await wait_until_complete(key)) {
        co_return;
    }
    GroupComplete complete;
    complete.connect = plan(groups_[key]);
    auto const answer = model::to_msgpack(complete);
    (void)co_await net::write_message(*stream, answer);
    stream->close_write();
}

} // namespace exo::node
