// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/apply.hpp"
#include "core/cluster/join.hpp"
#include "core/placement/tests/examples.hpp"

#include <gtest/gtest.h>

namespace exo::cluster {
namespace {

using namespace model;

TimePoint const start{};

Report report(std::string const& node, std::vector<ReportedRunner> runners, std::uint64_t n = 1) {
    return {
        .node_id = NodeId(node), .report_id = {.boot = 7, .n = n}, .runners = std::move(runners)
    };
}

ReportedRunner reported(Instance const& instance, std::string const& runner) {
    return {.instance = instance, .runner_id = RunnerId(runner), .status = RunnerReady{}};
}

struct Master {
    State state;
    OpenReports open;

    std::vector<Event> apply_all(std::vector<Event> const& events) {
        for (auto const& event : events) {
            apply(state, state.last_event_applied_idx + 1, event);
        }
        return events;
    }

    std::vector<Event> join(Report const& from, TimePoint now = start) {
        return apply_all(open_report(open, state, from, now));
    }

    // Until it has nothing more to say.
    std::vector<Event> decide(TimePoint now = start) {
        std::vector<Event> all;
        for (int round = 0; round < 10; ++round) {
            auto const events = apply_all(decide_reports(open, state, now));
            all.insert(all.end(), events.begin(), events.end());
            if (events.empty()) {
                return all;
            }
        }
        ADD_FAILURE() << "it never ends";
        return all;
    }

    [[nodiscard]] bool is_settled(std::string const& node) const {
        return state.members.at(NodeId(node)).settled;
    }
};

Master with_instance(Instance const& instance) {
    Master master;
    master.state.wishes[WishId("w")] = examples::wish("w");
    master.state.instances[instance_id(instance)] = instance;
    return master;
}

Instance two_ranks() {
    return examples::instance("i", "w", {"a", "b"});
}

TEST(Join, a_node_without_runners_is_settled_at_once) {
    Master master;
    auto const joined = master.join(report("a", {}));
    ASSERT_EQ(joined.size(), 1);
    EXPECT_EQ(
        std::get<NodeJoined>(joined[0]),
        (NodeJoined{.node_id = NodeId("a"), .boot = 7, .report_id = {.boot = 7, .n = 1}})
    );
    master.decide();
    EXPECT_TRUE(master.is_settled("a"));
    EXPECT_TRUE(master.open.by_node.empty());
}

TEST(Join, the_same_report_again_changes_nothing) {
    Master master;
    master.join(report("a", {}));
    EXPECT_TRUE(master.join(report("a", {})).empty());
    master.decide();
    EXPECT_TRUE(master.join(report("a", {})).empty());
    EXPECT_TRUE(master.is_settled("a"));
}

TEST(Join, a_newer_report_must_be_decided_anew) {
    Master master;
    master.join(report("a", {}));
    master.decide();
    master.join(report("a", {}, 2));
    EXPECT_FALSE(master.is_settled("a"));
    master.decide();
    EXPECT_TRUE(master.is_settled("a"));
}

// A1
TEST(Join, the_status_of_a_known_runner_is_noted) {
    Master master = with_instance(two_ranks());
    master.join(report("a", {reported(two_ranks(), "i-0")}));
    master.decide();
    EXPECT_TRUE(serves(master.state.runners.at(RunnerId("i-0"))));
    EXPECT_TRUE(master.is_settled("a"));
}

TEST(Join, a_higher_generation_raises_that_of_state) {
    Master master = with_instance(two_ranks());
    Instance newer = two_ranks();
    set_generation(newer, 4);
    master.join(report("a", {reported(newer, "i-0")}));
    master.join(report("b", {reported(newer, "i-1")}));
    master.decide();
    EXPECT_EQ(generation(master.state.instances.at(InstanceId("i"))), 4);
    EXPECT_EQ(master.state.runners.size(), 2);
}

TEST(Join, a_lower_generation_is_passed_over) {
    Instance newer = two_ranks();
    set_generation(newer, 4);
    Master master = with_instance(newer);
    master.join(report("a", {reported(two_ranks(), "i-0")}));
    master.decide();
    EXPECT_EQ(generation(master.state.instances.at(InstanceId("i"))), 4);
    EXPECT_TRUE(master.state.runners.empty());
    EXPECT_TRUE(master.is_settled("a"));
}

TEST(Join, a_runner_that_state_gives_to_another_node_is_passed_over) {
    Master master = with_instance(two_ranks());
    master.join(report("c", {reported(two_ranks(), "i-0")}));
    master.decide();
    EXPECT_TRUE(master.state.runners.empty());
    EXPECT_TRUE(master.is_settled("c"));
}

// A2
TEST(Join, an_instance_that_nobody_wishes_is_deleted_for_ever) {
    Master master;
    master.join(report("a", {reported(two_ranks(), "i-0")}));
    master.decide();
    EXPECT_EQ(master.state.deleted_instances, std::deque{InstanceId("i")});
    EXPECT_TRUE(master.is_settled("a"));
}

TEST(Join, an_instance_with_a_tombstone_stays_dead) {
    Master master;
    master.state.wishes[WishId("w")] = examples::wish("w");
    master.state.deleted_instances = {InstanceId("i")};
    master.join(report("a", {reported(two_ranks(), "i-0")}));
    master.join(report("b", {reported(two_ranks(), "i-1")}));
    master.decide();
    EXPECT_TRUE(master.state.instances.empty());
    EXPECT_TRUE(master.is_settled("a"));
}

TEST(Join, an_instance_is_adopted_when_all_its_ranks_have_reported) {
    Master master;
    master.state.wishes[WishId("w")] = examples::wish("w");
    master.join(report("a", {reported(two_ranks(), "i-0")}));
    EXPECT_TRUE(master.decide().empty()); // Waits for b.
    EXPECT_FALSE(master.is_settled("a"));
    master.join(report("b", {reported(two_ranks(), "i-1")}), start + 3s);
    auto const events = master.decide(start + 3s);
    EXPECT_TRUE(std::get<InstanceCreated>(events.at(0)).adopted);
    EXPECT_EQ(master.state.instances.at(InstanceId("i")), two_ranks());
    EXPECT_EQ(master.state.runners.size(), 2);
    EXPECT_TRUE(master.is_settled("a"));
    EXPECT_TRUE(master.is_settled("b"));
}

TEST(Join, ranks_of_different_generations_are_no_group) {
    Master master;
    master.state.wishes[WishId("w")] = examples::wish("w");
    Instance newer = two_ranks();
    set_generation(newer, 2);
    master.join(report("a", {reported(two_ranks(), "i-0")}));
    master.join(report("b", {reported(newer, "i-1")}));
    EXPECT_TRUE(master.decide().empty());
}

TEST(Join, a_failed_rank_is_not_alive) {
    Master master;
    master.state.wishes[WishId("w")] = examples::wish("w");
    ReportedRunner failed = reported(two_ranks(), "i-1");
    failed.status = RunnerFailed{.error_message = "x"};
    master.join(report("a", {reported(two_ranks(), "i-0")}));
    master.join(report("b", {failed}));
    EXPECT_TRUE(master.decide().empty());
}

TEST(Join, after_ten_seconds_an_incomplete_instance_is_not_adopted) {
    Master master;
    master.state.wishes[WishId("w")] = examples::wish("w");
    master.join(report("a", {reported(two_ranks(), "i-0")}));
    EXPECT_TRUE(master.decide(start + adoption_wait - 1ms).empty());
    master.decide(start + adoption_wait);
    EXPECT_TRUE(master.is_settled("a"));
    EXPECT_TRUE(master.state.instances.empty());
    EXPECT_TRUE(master.state.deleted_instances.empty()); // It may be reported again.
    EXPECT_TRUE(master.open.first_reported.empty());
}

TEST(Join, a_damaged_document_is_not_adopted) {
    Master master;
    master.state.wishes[WishId("w")] = examples::wish("w");
    MlxRingInstance damaged = examples::instance("i", "w", {"a"});
    damaged.shard_assignments.node_to_runner.clear();
    master.join(report("a", {reported(damaged, "i-0")}));
    master.decide();
    EXPECT_TRUE(master.state.instances.empty());
    EXPECT_TRUE(master.is_settled("a"));
}

TEST(Join, the_report_of_a_node_that_timed_out_is_forgotten) {
    Master master;
    master.state.wishes[WishId("w")] = examples::wish("w");
    master.join(report("a", {reported(two_ranks(), "i-0")}));
    master.apply_all({NodeTimedOut{NodeId("a")}});
    master.decide();
    EXPECT_TRUE(master.open.by_node.empty());
    EXPECT_TRUE(master.open.first_reported.empty());
}

} // namespace
} // namespace exo::cluster
