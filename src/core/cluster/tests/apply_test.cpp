// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "core/cluster/apply.hpp"
#include "core/cluster/lineage.hpp"
#include "core/placement/tests/examples.hpp"
#include "model/json.hpp"
#include "model/tests/fill.hpp"

#include <gtest/gtest.h>

namespace exo::cluster {
namespace {

using namespace model;

void apply_next(State& state, Event const& event) {
    apply(state, state.last_event_applied_idx + 1, event);
}

State after(std::vector<Event> const& events, State state = {}) {
    for (auto const& event : events) {
        apply_next(state, event);
    }
    return state;
}

Session session(std::string const& master, std::uint64_t clock) {
    return {.master_node_id = NodeId(master), .election_clock = clock, .nonce = clock * 7};
}

NodeJoined joined(std::string const& node, Boot boot, std::uint64_t n = 1) {
    return {.node_id = NodeId(node), .boot = boot, .report_id = {.boot = boot, .n = n}};
}

RunnerStatusUpdated status(std::string const& runner, RunnerStatus what, Generation of = 1) {
    return {.runner_id = RunnerId(runner), .generation = of, .runner_status = std::move(what)};
}

Task task(std::string const& id, TaskStatus status = TaskStatus::pending) {
    return TextGeneration{
        .task_id = TaskId(id),
        .instance_id = InstanceId("i"),
        .task_status = status,
        .model = ModelId("m")
    };
}

// A wish "w" and its instance "i" with rank 0 on "a" and rank 1 on "b", both ready.
State running() {
    return after({
        SessionStarted{.session = session("a", 1)},
        joined("a", 1),
        joined("b", 2),
        WishCreated{examples::wish("w")},
        InstanceCreated{.instance = examples::instance("i", "w", {"a", "b"})},
        status("i-0", RunnerReady{}),
        status("i-1", RunnerReady{}),
    });
}

TEST(Apply, every_event_advances_the_index_by_one) {
    State state;
    EXPECT_EQ(state.last_event_applied_idx, -1);
    apply(state, 0, TaskDeleted{TaskId("unknown")});
    skip(state, 1);
    EXPECT_EQ(state.last_event_applied_idx, 1);
}

TEST(ApplyDeathTest, an_index_that_is_not_the_next_is_a_bug) {
    State state;
    EXPECT_DEATH(apply(state, 1, TaskDeleted{TaskId("t")}), "index");
}

TEST(Apply, a_session_is_added_to_the_lineage_at_its_index) {
    State const state = after({
        SessionStarted{.session = session("a", 1)},
        joined("a", 1),
        SessionStarted{.session = session("b", 2), .base = 1},
    });
    EXPECT_EQ(
        state.lineage, (std::vector<LineageEntry>{{session("a", 1), 0}, {session("b", 2), 2}})
    );
    EXPECT_EQ(current_session(state), session("b", 2));
    EXPECT_EQ(position(state), (Position{session("b", 2), 2}));
}

TEST(Apply, a_lineage_keeps_its_newest_sessions) {
    State state;
    for (std::uint64_t clock = 1; clock <= lineage_max + 5; ++clock) {
        apply_next(state, SessionStarted{.session = session("a", clock)});
    }
    EXPECT_EQ(state.lineage.size(), lineage_max);
    EXPECT_EQ(state.lineage.front().session, session("a", 6));
}

TEST(Apply, in_a_new_session_every_node_must_join_anew) {
    State state = running();
    apply_next(state, NodeSettled{.node_id = NodeId("a"), .report_id = {.boot = 1, .n = 1}});
    apply_next(state, SessionStarted{.session = session("b", 2)});
    EXPECT_EQ(state.members.at(NodeId("a")), (Member{.boot = 1}));
    EXPECT_EQ(state.runners.size(), 2); // What runs goes on.
}

TEST(Apply, a_joining_node_loses_what_state_said_of_its_runners) {
    State state = running();
    apply_next(state, joined("b", 2, 5));
    EXPECT_FALSE(state.runners.contains(RunnerId("i-1")));
    EXPECT_TRUE(state.runners.contains(RunnerId("i-0")));
    EXPECT_FALSE(state.members.at(NodeId("b")).settled);
}

TEST(Apply, a_node_is_settled_only_with_its_present_report) {
    State state = running();
    apply_next(state, NodeSettled{.node_id = NodeId("b"), .report_id = {.boot = 2, .n = 9}});
    EXPECT_FALSE(state.members.at(NodeId("b")).settled);
    apply_next(state, NodeSettled{.node_id = NodeId("b"), .report_id = {.boot = 2, .n = 1}});
    EXPECT_TRUE(state.members.at(NodeId("b")).settled);
}

TEST(Apply, a_node_that_timed_out_is_gone_with_its_runners) {
    State state = running();
    apply_next(state, NodeTimedOut{NodeId("b")});
    EXPECT_FALSE(state.members.contains(NodeId("b")));
    EXPECT_FALSE(state.runners.contains(RunnerId("i-1")));
    EXPECT_TRUE(state.instances.contains(InstanceId("i"))); // The master decides on it (M2).
}

TEST(Apply, wishes_come_and_go) {
    State state = after({WishCreated{examples::wish("w")}});
    EXPECT_EQ(state.wishes.at(WishId("w")), examples::wish("w"));
    apply_next(state, WishRefused{.wish_id = WishId("w"), .reason = "no memory"});
    EXPECT_EQ(state.wishes.at(WishId("w")).refusal, "no memory");
    apply_next(state, WishDeleted{WishId("w")});
    EXPECT_TRUE(state.wishes.empty());
}

TEST(Apply, an_instance_clears_what_its_wish_was_refused_for) {
    State const state = after({
        WishCreated{examples::wish("w")},
        WishRefused{.wish_id = WishId("w"), .reason = "no memory"},
        InstanceCreated{.instance = examples::instance("i", "w", {"a"})},
    });
    EXPECT_EQ(state.wishes.at(WishId("w")).refusal, "");
}

TEST(Apply, a_deleted_instance_takes_its_runners_and_fails_its_open_tasks) {
    State state = running();
    apply_next(state, TaskCreated{task("open")});
    apply_next(state, TaskCreated{task("done", TaskStatus::complete)});
    apply_next(
        state,
        InstanceDeleted{
            .instance_id = InstanceId("i"),
            .reason = DeletionReason::node_lost,
            .message = "node b does not answer"
        }
    );
    EXPECT_TRUE(state.instances.empty());
    EXPECT_TRUE(state.runners.empty());
    EXPECT_EQ(task_status(state.tasks.at(TaskId("open"))), TaskStatus::failed);
    EXPECT_EQ(
        task_error(state.tasks.at(TaskId("open"))),
        "a node of the instance was lost: node b does not answer"
    );
    EXPECT_EQ(task_status(state.tasks.at(TaskId("done"))), TaskStatus::complete);
    EXPECT_EQ(state.wishes.at(WishId("w")).last_instance_id, InstanceId("i"));
}

TEST(Apply, every_deletion_but_that_for_a_lost_node_leaves_a_tombstone) {
    for (auto const reason :
         {DeletionReason::user, DeletionReason::failed, DeletionReason::duplicate}) {
        State const state =
            after({InstanceDeleted{.instance_id = InstanceId("i"), .reason = reason}}, running());
        EXPECT_EQ(state.deleted_instances, std::deque{InstanceId("i")});
    }
    State const state = after(
        {InstanceDeleted{.instance_id = InstanceId("i"), .reason = DeletionReason::node_lost}},
        running()
    );
    EXPECT_TRUE(state.deleted_instances.empty());
}

TEST(Apply, a_deleted_instance_never_comes_back) {
    State const state = after(
        {InstanceDeleted{.instance_id = InstanceId("i")},
         InstanceCreated{.instance = examples::instance("i", "w", {"a", "b"}), .adopted = true}},
        running()
    );
    EXPECT_TRUE(state.instances.empty());
}

TEST(Apply, tombstones_have_a_limit) {
    State state;
    for (std::size_t i = 0; i < tombstones_max + 3; ++i) {
        state.deleted_instances.push_back(InstanceId(std::to_string(i)));
    }
    apply_next(state, InstanceDeleted{.instance_id = InstanceId("last")});
    EXPECT_EQ(state.deleted_instances.size(), tombstones_max);
    EXPECT_EQ(state.deleted_instances.back(), InstanceId("last"));
}

TEST(Apply, a_failed_instance_leaves_its_reason_at_the_wish_until_nodes_change) {
    State state = after(
        {InstanceDeleted{
            .instance_id = InstanceId("i"), .reason = DeletionReason::failed, .message = "crashed"
        }},
        running()
    );
    Wish const& wish = state.wishes.at(WishId("w"));
    EXPECT_TRUE(wish.failed);
    EXPECT_EQ(wish.refusal, "crashed");
    apply_next(state, joined("a", 1, 2)); // The same process: no change of nodes.
    EXPECT_TRUE(wish.failed);
    apply_next(state, joined("c", 3));
    EXPECT_FALSE(wish.failed);
}

TEST(Apply, a_restarted_node_and_a_lost_one_are_changes_of_nodes) {
    for (Event const& change : {Event(joined("b", 99)), Event(NodeTimedOut{NodeId("b")})}) {
        State state = running();
        state.wishes.at(WishId("w")).failed = true;
        apply_next(state, change);
        EXPECT_FALSE(state.wishes.at(WishId("w")).failed);
    }
}

TEST(Apply, a_restart_raises_the_generation_and_forgets_statuses) {
    State state = after({InstanceRestarted{InstanceId("i"), 3}}, running());
    EXPECT_EQ(generation(state.instances.at(InstanceId("i"))), 3);
    EXPECT_TRUE(state.runners.empty());
    apply_next(state, status("i-0", RunnerReady{}, 3));
    apply_next(state, InstanceRestarted{InstanceId("i"), 2}); // Late.
    EXPECT_EQ(generation(state.instances.at(InstanceId("i"))), 3);
    EXPECT_EQ(state.runners.size(), 1);
}

TEST(Apply, a_status_of_another_generation_is_ignored) {
    State state = running();
    apply_next(state, status("i-0", RunnerFailed{.error_message = "late"}, 0));
    apply_next(state, status("i-0", RunnerFailed{.error_message = "early"}, 2));
    EXPECT_TRUE(std::holds_alternative<RunnerReady>(state.runners.at(RunnerId("i-0"))));
}

TEST(Apply, a_status_of_an_unknown_runner_is_ignored) {
    EXPECT_TRUE(after({status("nobody", RunnerReady{})}).runners.empty());
}

TEST(Apply, a_terminal_status_of_a_task_is_final) {
    State state = after({TaskCreated{task("t")}}, running());
    apply_next(state, TaskStatusUpdated{TaskId("t"), TaskStatus::running, ""});
    apply_next(state, TaskStatusUpdated{TaskId("t"), TaskStatus::cancelled, "client gone"});
    apply_next(state, TaskStatusUpdated{TaskId("t"), TaskStatus::complete, ""});
    apply_next(state, TaskCreated{task("t")});
    EXPECT_EQ(task_status(state.tasks.at(TaskId("t"))), TaskStatus::cancelled);
    EXPECT_EQ(task_error(state.tasks.at(TaskId("t"))), "client gone");
    EXPECT_EQ(state.finished_tasks.size(), 1);
}

TEST(Apply, finished_tasks_beyond_the_limit_go_oldest_first) {
    State state;
    apply_next(state, TaskCreated{task("open")});
    for (std::size_t i = 0; i < finished_tasks_max + 2; ++i) {
        // Ids in falling order: it is the age that counts.
        std::string const id = "t" + std::to_string(9000 - i);
        apply_next(state, TaskCreated{task(id)});
        apply_next(state, TaskStatusUpdated{TaskId(id), TaskStatus::complete, ""});
    }
    EXPECT_EQ(state.finished_tasks.size(), finished_tasks_max);
    EXPECT_EQ(state.tasks.size(), finished_tasks_max + 1);
    EXPECT_FALSE(state.tasks.contains(TaskId("t9000")));
    EXPECT_FALSE(state.tasks.contains(TaskId("t8999")));
    EXPECT_TRUE(state.tasks.contains(TaskId("t8998")));
    EXPECT_TRUE(state.tasks.contains(TaskId("open")));
}

TEST(Apply, a_deleted_task_is_gone_from_all_lists) {
    State const state =
        after({TaskCreated{task("t", TaskStatus::complete)}, TaskDeleted{TaskId("t")}}, running());
    EXPECT_TRUE(state.tasks.empty());
    EXPECT_TRUE(state.finished_tasks.empty());
}

TEST(Apply, a_command_is_recorded_once) {
    CommandRecorded const recorded{.command_id = CommandId("c"), .instance_id = InstanceId("i")};
    State const state = after({recorded, recorded});
    EXPECT_EQ(state.commands_recorded, 1);
    EXPECT_EQ(state.outcomes.size(), 1);
}

TEST(Apply, outcomes_have_a_limit) {
    State state;
    for (std::size_t i = 0; i < outcomes_max + 1; ++i) {
        apply_next(state, CommandRecorded{.command_id = CommandId(std::to_string(i))});
    }
    EXPECT_EQ(state.outcomes.size(), outcomes_max);
    EXPECT_EQ(state.outcomes.front().command_id, CommandId("1"));
    EXPECT_EQ(state.commands_recorded, outcomes_max + 1);
}

// Events are bytes of a peer: whatever they say, apply is total, and all nodes end alike.
TEST(ApplyProperties, any_events_give_one_state_within_limits) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        Random random(seed);
        State one;
        State two;
        for (int i = 0; i < 200; ++i) {
            Event event;
            fill(event, random);
            apply_next(one, event);
            apply_next(two, from_msgpack<Event>(to_msgpack(event)).value());
        }
        ASSERT_TRUE(one == two) << "seed " << seed;
        ASSERT_LE(one.finished_tasks.size(), one.tasks.size()) << "seed " << seed;
        for (auto const& [runner, status] : one.runners) {
            bool known = false;
            for (auto const& [id, instance] : one.instances) {
                known |= shard_assignments(instance).runner_to_shard.contains(runner);
            }
            ASSERT_TRUE(known) << "seed " << seed << ": a status without a runner";
        }
    }
}

TEST(Lineage, a_position_is_in_it_if_the_log_went_through_it) {
    State const state = after({
        SessionStarted{.session = session("a", 1)}, // 0
        joined("a", 1),                             // 1
        SessionStarted{.session = session("b", 2)}, // 2
        joined("b", 2),                             // 3
    });
    EXPECT_TRUE(in_lineage(state, {}));
    EXPECT_TRUE(in_lineage(state, {session("a", 1), 0}));
    EXPECT_TRUE(in_lineage(state, {session("a", 1), 1}));
    EXPECT_FALSE(in_lineage(state, {session("a", 1), 2})); // That index is another session's.
    EXPECT_FALSE(in_lineage(state, {session("b", 2), 1}));
    EXPECT_TRUE(in_lineage(state, {session("b", 2), 3}));
    EXPECT_FALSE(in_lineage(state, {session("b", 2), 4})); // Not there yet.
    EXPECT_FALSE(in_lineage(state, {session("c", 3), 1}));
}

TEST(Lineage, an_empty_log_has_no_session) {
    EXPECT_FALSE(current_session(State{}));
    EXPECT_EQ(position(State{}), Position{});
    EXPECT_FALSE(in_lineage(State{}, {session("a", 1), 0}));
}

} // namespace
} // namespace exo::cluster
