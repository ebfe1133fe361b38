// SPDX-License-Identifier: Apache-2.0
#include "core/placement/tests/examples.hpp"
#include "core/plan/plan.hpp"

#include <gtest/gtest.h>

namespace exo::plan {
namespace {

using namespace model;

NodeId const self("a");

// An instance "i" with rank 0 on this node and rank 1 on "b", in generation 2.
State two_ranks() {
    State state;
    Instance instance = examples::instance("i", "w", {"a", "b"});
    set_generation(instance, 2);
    state.instances[InstanceId("i")] = instance;
    return state;
}

LocalRunner local(RunnerStatus status, Process process = Process::running) {
    return {
        .runner_id = RunnerId("i-0"),
        .instance_id = InstanceId("i"),
        .generation = 2,
        .status = std::move(status),
        .process = process
    };
}

std::optional<Action> next(State const& state, LocalRunners const& runners, bool settled = true) {
    return next_action(state, self, settled, runners);
}

void expect_stop(std::optional<Action> const& action, StopReason reason, std::string const& text) {
    ASSERT_TRUE(action);
    auto const* const stop = std::get_if<StopRunner>(&*action);
    ASSERT_NE(stop, nullptr);
    EXPECT_EQ(stop->reason, reason);
    EXPECT_EQ(stop->text, text);
    EXPECT_EQ(stop->runner_id, RunnerId("i-0"));
}

TEST(Plan, an_instance_that_names_this_node_gets_its_runner) {
    State const state = two_ranks();
    auto const action = next(state, {});
    ASSERT_TRUE(action);
    CreateRunner const expected{
        .instance = state.instances.at(InstanceId("i")),
        .runner_id = RunnerId("i-0"),
        .generation = 2,
        .device_rank = 0
    };
    EXPECT_TRUE(std::get<CreateRunner>(*action) == expected);
}

TEST(Plan, an_instance_of_other_nodes_is_not_ours) {
    EXPECT_FALSE(next_action(two_ranks(), NodeId("c"), true, {}));
}

TEST(Plan, a_runner_that_runs_is_left_alone) {
    EXPECT_FALSE(next(two_ranks(), {local(RunnerReady{})}));
    EXPECT_FALSE(next(two_ranks(), {local(RunnerLoading{})}));
}

// W1
TEST(Plan, nothing_is_created_or_stopped_because_of_state_before_the_node_is_settled) {
    EXPECT_FALSE(next(two_ranks(), {}, false));
    EXPECT_FALSE(next(State{}, {local(RunnerReady{})}, false));
    State newer = two_ranks();
    set_generation(newer.instances.at(InstanceId("i")), 3);
    EXPECT_FALSE(next(newer, {local(RunnerReady{})}, false));
    State failed = two_ranks();
    failed.runners[RunnerId("i-1")] = RunnerFailed{.error_message = "x"};
    EXPECT_FALSE(next(failed, {local(RunnerReady{})}, false));
}

// W2
TEST(Plan, a_runner_of_a_deleted_instance_is_stopped) {
    expect_stop(
        next(State{}, {local(RunnerReady{})}), StopReason::instance_gone, "its instance was deleted"
    );
}

TEST(Plan, a_runner_that_state_gives_to_another_node_is_stopped) {
    State state;
    state.instances[InstanceId("i")] = examples::instance("i", "w", {"c", "b"});
    expect_stop(
        next(state, {local(RunnerReady{})}), StopReason::instance_gone, "its instance was deleted"
    );
}

TEST(Plan, a_runner_of_an_older_generation_is_stopped) {
    State state = two_ranks();
    set_generation(state.instances.at(InstanceId("i")), 3);
    expect_stop(
        next(state, {local(RunnerReady{})}),
        StopReason::newer_generation,
        "its group is started anew as generation 3"
    );
}

TEST(Plan, a_runner_whose_sibling_failed_is_stopped) {
    State state = two_ranks();
    state.runners[RunnerId("i-1")] = RunnerFailed{.error_message = "out of memory"};
    expect_stop(
        next(state, {local(RunnerReady{})}),
        StopReason::group_failed,
        "rank 1 on b failed: out of memory"
    );
}

TEST(Plan, a_failed_runner_whose_process_lives_is_stopped_settled_or_not) {
    for (bool const settled : {true, false}) {
        expect_stop(
            next(two_ranks(), {local(RunnerFailed{.error_message = "stuck"})}, settled),
            StopReason::group_failed,
            "stuck"
        );
    }
}

// W3
TEST(Plan, nothing_is_started_while_a_process_is_ending) {
    State state = two_ranks();
    LocalRunner other = local(RunnerShuttingDown{}, Process::ending);
    other.runner_id = RunnerId("x-0");
    other.instance_id = InstanceId("x");
    EXPECT_FALSE(next(state, {other}));
    other.process = Process::gone;
    EXPECT_TRUE(next(state, {other}));
}

TEST(Plan, a_runner_that_ended_is_not_started_again_in_its_generation) {
    State state = two_ranks();
    EXPECT_FALSE(next(state, {local(RunnerFailed{.error_message = "x"}, Process::gone)}));
    set_generation(state.instances.at(InstanceId("i")), 3);
    auto const action = next(state, {local(RunnerFailed{.error_message = "x"}, Process::gone)});
    ASSERT_TRUE(action);
    EXPECT_EQ(std::get<CreateRunner>(*action).generation, 3);
}

TEST(Plan, a_group_with_a_failed_rank_is_not_joined_before_it_is_started_anew) {
    State state = two_ranks();
    state.runners[RunnerId("i-1")] = RunnerFailed{.error_message = "x"};
    EXPECT_FALSE(next(state, {}));
}

TEST(Plan, a_damaged_instance_is_not_started) {
    State state;
    MlxRingInstance damaged = examples::instance("i", "w", {"a", "b"});
    damaged.shard_assignments.runner_to_shard.erase(RunnerId("i-1"));
    state.instances[InstanceId("i")] = damaged;
    EXPECT_FALSE(next(state, {}));
}

TEST(Plan, stops_come_before_starts) {
    State state = two_ranks();
    LocalRunner other = local(RunnerReady{});
    other.runner_id = RunnerId("x-0");
    other.instance_id = InstanceId("x");
    auto const action = next(state, {other});
    ASSERT_TRUE(action);
    EXPECT_EQ(std::get<StopRunner>(*action).runner_id, RunnerId("x-0"));
}

TEST(Forgettable, an_entry_stays_while_state_may_want_its_status) {
    State state = two_ranks();
    LocalRunner const gone = local(RunnerFailed{.error_message = "x"}, Process::gone);
    EXPECT_TRUE(forgettable(state, self, {gone}).empty());
    set_generation(state.instances.at(InstanceId("i")), 3);
    EXPECT_EQ(forgettable(state, self, {gone}), LocalRunners{gone});
    EXPECT_EQ(forgettable(State{}, self, {gone}), LocalRunners{gone});
    EXPECT_TRUE(forgettable(State{}, self, {local(RunnerReady{})}).empty());
}

} // namespace
} // namespace exo::plan
