// SPDX-License-Identifier: Apache-2.0
#include "net/host/tests/host_fixture.hpp"
#include "node/worker/group_service.hpp"

namespace exo::node {
namespace {

using net::test::HostTest;
using net::test::options_of;

model::InstanceId const instance("instance");

ipc::RankEndpoint endpoint(std::uint16_t port) {
    ipc::RankEndpoint endpoint;
    endpoint.addresses = {"127.0.0.1"};
    endpoint.port = port;
    return endpoint;
}

class GroupServiceTest : public HostTest {
protected:
    // A node that believes of each rank what `is_rank_` says.
    struct Member {
        net::test::Node& node;
        GroupService groups;
    };

    std::unique_ptr<Member> member(std::uint8_t seed) {
        auto& node = add(options_of(seed));
        auto made = std::unique_ptr<Member>(new Member{
            node,
            GroupService(
                node.host, [this](auto const&, auto const&, std::uint32_t) { return is_rank_; }
            )
        });
        EXPECT_TRUE(node.host.start());
        return made;
    }

    static model::NodeId id(Member const& member) {
        return model::NodeId(member.node.host.id().text());
    }

    // Asks to be `rank`; the answer comes later.
    void spawn_join(
        Member& joiner,
        Member const& rank_0,
        std::uint32_t rank,
        std::optional<Result<ipc::Connect>>& answer
    ) {
        JoinGroup join;
        join.instance_id = instance;
        join.generation = 1;
        join.device_rank = rank;
        join.endpoint = endpoint(static_cast<std::uint16_t>(1000 + rank));
        auto work = store(answer, joiner.groups.join_group(id(rank_0), std::move(join)));
        asio::co_spawn(io_, std::move(work), [](std::exception_ptr) {});
    }

    bool is_rank_ = true;
};

TEST_F(GroupServiceTest, all_ranks_get_the_same_endpoints_and_key_when_the_last_has_come) {
    auto const rank_0 = member(1);
    auto const rank_1 = member(2);
    connect(rank_0->node, rank_1->node);
    std::optional<Result<ipc::Connect>> joined;
    spawn_join(*rank_1, *rank_0, 1, joined); // Before rank 0's own runner listens.
    auto const hosted = run(rank_0->groups.host_group(instance, 1, 2, endpoint(1000)));
    ASSERT_TRUE(hosted);
    ASSERT_TRUE(run_until([&] { return joined.has_value(); }));
    ASSERT_TRUE(*joined);
    EXPECT_EQ(**joined, *hosted);
    EXPECT_EQ(hosted->key_hex.size(), 64u);
    ASSERT_EQ(hosted->endpoints.size(), 2u);
    EXPECT_EQ(hosted->endpoints[0], endpoint(1000));
    EXPECT_EQ(hosted->endpoints[1], endpoint(1001));
}

TEST_F(GroupServiceTest, each_generation_has_a_key_of_its_own) {
    auto const rank_0 = member(1);
    auto const first = run(rank_0->groups.host_group(instance, 1, 1, endpoint(1000)));
    auto const second = run(rank_0->groups.host_group(instance, 2, 1, endpoint(1000)));
    ASSERT_TRUE(first && second);
    EXPECT_NE(first->key_hex, second->key_hex);
}

TEST_F(GroupServiceTest, a_node_that_is_not_the_rank_gets_no_key) {
    auto const rank_0 = member(1);
    auto const stranger = member(2);
    connect(rank_0->node, stranger->node);
    is_rank_ = false;
    std::optional<Result<ipc::Connect>> joined;
    spawn_join(*stranger, *rank_0, 1, joined);
    std::optional<Result<ipc::Connect>> hosted;
    auto work = store(hosted, rank_0->groups.host_group(instance, 1, 2, endpoint(1000)));
    asio::co_spawn(io_, std::move(work), [](std::exception_ptr) {});
    run_for(2 * GroupService::retry_interval); // Long enough to have asked again.
    EXPECT_FALSE(joined);
    EXPECT_FALSE(hosted);
    is_rank_ = true; // State has caught up: the next question is answered.
    EXPECT_TRUE(run_until([&] { return joined.has_value() && hosted.has_value(); }));
}

} // namespace
} // namespace exo::node
