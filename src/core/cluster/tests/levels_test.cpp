// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/apply.hpp"
#include "core/cluster/levels.hpp"
#include "core/placement/tests/examples.hpp"

#include <gtest/gtest.h>

namespace exo::cluster {
namespace {

using namespace model;

NodeId const self("a");
Session const session{.master_node_id = NodeId("m"), .election_clock = 1, .nonce = 1};
ReportId const report_id{.boot = 7, .n = 1};

// Rank 0 of "i" and rank 1 of "j" are here.
State two_instances() {
    State state;
    state.last_event_applied_idx = 0;
    state.lineage = {{.session = session, .first_index = 0}};
    state.members[self] = {.boot = 7, .report_id = report_id, .settled = true};
    state.instances[InstanceId("i")] = examples::instance("i", "w", {"a", "b"});
    state.instances[InstanceId("j")] = examples::instance("j", "w", {"b", "a"});
    return state;
}

Task task(
    std::string const& id, TaskStatus status = TaskStatus::pending, std::string const& of = "i"
) {
    return TextGeneration{
        .task_id = TaskId(id), .instance_id = InstanceId(of), .task_status = status
    };
}

Levels runner_level(RunnerStatus status, Generation generation = 1) {
    return {
        .runners = {{RunnerId("i-0"), {.generation = generation, .status = std::move(status)}}},
        .tasks = {}
    };
}

Levels task_level(Task const& task) {
    return {.runners = {}, .tasks = {{task_id(task), task}}};
}

std::vector<Event> accept(State const& state, std::vector<Event> const& events) {
    return accept_submission(state, self, session, report_id, events).value();
}

// What a worker and a master make of levels, once.
void exchange(State& state, Levels const& levels) {
    for (auto const& event : accept(state, missing_levels(state, self, levels))) {
        apply(state, state.last_event_applied_idx + 1, event);
    }
}

TEST(Levels, a_difference_is_submitted_until_it_is_gone) {
    State state = two_instances();
    Levels levels = runner_level(RunnerReady{});
    levels.tasks[TaskId("t")] = task("t");
    EXPECT_EQ(missing_levels(state, self, levels).size(), 2);
    exchange(state, levels);
    EXPECT_TRUE(missing_levels(state, self, levels).empty());
    levels.tasks[TaskId("t")] = task("t", TaskStatus::complete);
    exchange(state, levels);
    EXPECT_EQ(task_status(state.tasks.at(TaskId("t"))), TaskStatus::complete);
    EXPECT_TRUE(missing_levels(state, self, levels).empty());
}

TEST(Levels, a_task_that_ended_before_state_knew_it_is_one_event) {
    State state = two_instances();
    exchange(state, task_level(task("t", TaskStatus::failed)));
    EXPECT_EQ(task_status(state.tasks.at(TaskId("t"))), TaskStatus::failed);
    EXPECT_EQ(state.finished_tasks.size(), 1);
}

TEST(Levels, a_status_of_another_generation_or_a_deleted_instance_is_not_submitted) {
    EXPECT_TRUE(missing_levels(two_instances(), self, runner_level(RunnerReady{}, 2)).empty());
    State state = two_instances();
    state.instances.clear();
    EXPECT_TRUE(missing_levels(state, self, runner_level(RunnerReady{})).empty());
    EXPECT_TRUE(missing_levels(state, self, task_level(task("t"))).empty());
}

TEST(Levels, loading_is_told_by_tenths) {
    State state = two_instances();
    state.runners[RunnerId("i-0")] = RunnerLoading{.layers_loaded = 10, .total_layers = 100};
    auto const at = [](std::uint32_t layers) {
        return runner_level(RunnerLoading{.layers_loaded = layers, .total_layers = 100});
    };
    EXPECT_TRUE(missing_levels(state, self, at(19)).empty());
    EXPECT_EQ(missing_levels(state, self, at(20)).size(), 1);
}

TEST(Levels, an_open_task_that_this_process_does_not_know_is_lost) {
    State state = two_instances();
    state.tasks[TaskId("old")] = task("old", TaskStatus::running);
    state.tasks[TaskId("done")] = task("done", TaskStatus::complete);
    state.tasks[TaskId("other")] = task("other", TaskStatus::running, "j"); // Rank 0 is on b.
    auto const events = missing_levels(state, self, {});
    ASSERT_EQ(events.size(), 1);
    EXPECT_EQ(
        std::get<TaskStatusUpdated>(events[0]),
        (TaskStatusUpdated{TaskId("old"), TaskStatus::failed, "its node was started anew"})
    );
}

TEST(Levels, a_submission_has_a_limit_and_the_rest_follows) {
    State state = two_instances();
    Levels levels;
    for (std::size_t i = 0; i < submission_events_max + 10; ++i) {
        Task const one = task("t" + std::to_string(i));
        levels.tasks[task_id(one)] = one;
    }
    EXPECT_EQ(missing_levels(state, self, levels).size(), submission_events_max);
    exchange(state, levels);
    EXPECT_EQ(missing_levels(state, self, levels).size(), 10);
    exchange(state, levels);
    EXPECT_TRUE(missing_levels(state, self, levels).empty());
}

TEST(Submission, of_an_old_session_or_report_is_refused) {
    State const state = two_instances();
    Session other = session;
    other.nonce = 2;
    EXPECT_EQ(accept_submission(state, self, other, report_id, {}).error().code(), Errc::conflict);
    EXPECT_EQ(
        accept_submission(state, self, session, {.boot = 7, .n = 0}, {}).error().code(),
        Errc::conflict
    );
    EXPECT_EQ(
        accept_submission(state, NodeId("stranger"), session, report_id, {}).error().code(),
        Errc::conflict
    );
}

TEST(Submission, too_many_events_are_refused) {
    std::vector<Event> const many(submission_events_max + 1, TaskCreated{task("t")});
    EXPECT_EQ(
        accept_submission(two_instances(), self, session, report_id, many).error().code(),
        Errc::limit
    );
}

TEST(Submission, a_worker_speaks_of_its_own_runners_and_tasks_only) {
    State state = two_instances();
    state.tasks[TaskId("other")] = task("other", TaskStatus::running, "j");
    Event const own = RunnerStatusUpdated{RunnerId("i-0"), 1, RunnerReady{}};
    std::vector<Event> const events{
        RunnerStatusUpdated{RunnerId("i-1"), 1, RunnerReady{}},
        RunnerStatusUpdated{RunnerId("unknown"), 1, RunnerReady{}},
        TaskCreated{task("t", TaskStatus::pending, "j")},
        TaskStatusUpdated{TaskId("other"), TaskStatus::complete, ""},
        TaskStatusUpdated{TaskId("unknown"), TaskStatus::complete, ""},
        InstanceDeleted{.instance_id = InstanceId("i")},
        NodeTimedOut{NodeId("b")},
        own,
    };
    auto const accepted = accept(state, events);
    ASSERT_EQ(accepted.size(), 1);
    EXPECT_TRUE(accepted[0] == own);
}

TEST(Submission, what_state_has_already_is_not_logged_again) {
    State state = two_instances();
    Event const ready = RunnerStatusUpdated{RunnerId("i-0"), 1, RunnerReady{}};
    EXPECT_EQ(accept(state, {ready}).size(), 1);
    state.runners[RunnerId("i-0")] = RunnerReady{};
    EXPECT_TRUE(accept(state, {ready}).empty());
}

TEST(Submission, open_tasks_have_a_limit) {
    State state = two_instances();
    for (std::size_t i = 0; i + 1 < open_tasks_max; ++i) {
        Task const one = task("t" + std::to_string(i));
        state.tasks[task_id(one)] = one;
    }
    std::vector<Event> const two{TaskCreated{task("x")}, TaskCreated{task("y")}};
    EXPECT_EQ(accept(state, two).size(), 1);
}

} // namespace
} // namespace exo::cluster
