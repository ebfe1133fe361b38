// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/choose.hpp"
#include "core/placement/tests/examples.hpp"

#include <gtest/gtest.h>

namespace exo::cluster {
namespace {

using namespace model;

// Instances "i" and "j" of the model, each on two nodes, all ranks ready.
State two_instances() {
    State state;
    state.wishes[WishId("w")] = examples::wish("w");
    state.instances[InstanceId("i")] = examples::instance("i", "w", {"a", "b"});
    state.instances[InstanceId("j")] = examples::instance("j", "w", {"c", "d"});
    for (auto const* runner : {"i-0", "i-1", "j-0", "j-1"}) {
        state.runners[RunnerId(runner)] = RunnerReady{};
    }
    return state;
}

void add_task(State& state, std::string const& id, std::string const& instance, TaskStatus status) {
    state.tasks[TaskId(id)] = TextGeneration{
        .task_id = TaskId(id), .instance_id = InstanceId(instance), .task_status = status
    };
}

Result<InstanceId>
choose(State const& state, InFlight const& in_flight = {}, std::set<NodeId> const& silent = {}) {
    return choose_instance(state, ModelId("m"), in_flight, silent);
}

void expect_error(Result<InstanceId> const& chosen, Errc code, std::string const& text) {
    ASSERT_FALSE(chosen);
    EXPECT_EQ(chosen.error().code(), code);
    EXPECT_EQ(chosen.error().text(), text);
}

TEST(Choose, the_least_id_wins_a_tie) {
    EXPECT_EQ(choose(two_instances()).value(), InstanceId("i"));
}

TEST(Choose, fewer_open_tasks_win) {
    State state = two_instances();
    add_task(state, "t1", "i", TaskStatus::running);
    add_task(state, "t2", "j", TaskStatus::complete); // Finished: does not count.
    EXPECT_EQ(choose(state).value(), InstanceId("j"));
}

TEST(Choose, requests_that_state_does_not_know_yet_count) {
    EXPECT_EQ(choose(two_instances(), {{InstanceId("i"), 1}}).value(), InstanceId("j"));
    State state = two_instances();
    add_task(state, "t1", "i", TaskStatus::pending);
    // The same request seen twice is one.
    EXPECT_EQ(choose(state, {{InstanceId("i"), 1}, {InstanceId("j"), 2}}).value(), InstanceId("i"));
}

TEST(Choose, every_rank_must_serve) {
    State state = two_instances();
    state.runners[RunnerId("i-1")] = RunnerLoading{};
    EXPECT_EQ(choose(state).value(), InstanceId("j"));
    state.runners[RunnerId("i-1")] = RunnerRunning{};
    EXPECT_EQ(choose(state).value(), InstanceId("i"));
}

TEST(Choose, an_instance_with_a_silent_node_is_passed_over) {
    EXPECT_EQ(choose(two_instances(), {}, {NodeId("b")}).value(), InstanceId("j"));
    expect_error(
        choose(two_instances(), {}, {NodeId("b"), NodeId("c")}),
        Errc::unavailable,
        "instance j of m: node c does not answer"
    );
}

TEST(Choose, what_loads_starts_or_restarts_is_worth_waiting_for) {
    State state = two_instances();
    state.instances.erase(InstanceId("j"));
    state.runners.erase(RunnerId("i-1"));
    expect_error(choose(state), Errc::unavailable, "instance i of m: it starts on node b");
    state.runners[RunnerId("i-1")] = RunnerWarmingUp{};
    expect_error(choose(state), Errc::unavailable, "instance i of m: it loads on node b");
    state.runners[RunnerId("i-1")] = RunnerFailed{.error_message = "crash"};
    expect_error(
        choose(state),
        Errc::unavailable,
        "instance i of m: it failed on node b and will be started again: crash"
    );
}

TEST(Choose, without_instance_and_wish_there_is_nothing) {
    expect_error(choose(State{}), Errc::not_found, "no instance of m");
    EXPECT_EQ(
        choose_instance(two_instances(), ModelId("other"), {}, {}).error().code(), Errc::not_found
    );
}

TEST(Choose, a_wish_without_instance_is_waited_for_until_it_is_refused) {
    State state;
    state.wishes[WishId("w")] = examples::wish("w");
    expect_error(choose(state), Errc::unavailable, "m is about to be placed");
    state.wishes.at(WishId("w")).refusal = "no memory";
    expect_error(choose(state), Errc::conflict, "no memory");
}

} // namespace
} // namespace exo::cluster
