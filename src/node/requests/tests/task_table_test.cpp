// SPDX-License-Identifier: Apache-2.0
#include "node/requests/task_table.hpp"

#include <gtest/gtest.h>

namespace exo::node {
namespace {

using model::GenerationFailed;
using model::GenerationFinished;
using model::TaskStatus;
using model::TokenDelta;

class TaskTableTest : public testing::Test {
protected:
    TaskTableTest()
        : table_(hooks()) {}

    TaskTable::Hooks hooks() {
        TaskTable::Hooks hooks;
        hooks.start = [this](auto const&, auto const& request) -> Result<void> {
            started_.push_back(request.task_id.value());
            return start_result_;
        };
        hooks.cancel = [this](auto const&, auto const& task) {
            cancelled_.push_back(task.value());
        };
        hooks.events_added = [] {};
        hooks.levels_changed = [this] { ++levels_changes_; };
        return hooks;
    }

    static OpenTask request(std::string const& id) {
        OpenTask open;
        open.instance_id = model::InstanceId("instance");
        open.request.task_id = model::TaskId(id);
        return open;
    }

    void say(std::string const& id, std::uint64_t number) {
        table_.on_event(model::TaskId(id), TokenDelta{number, "x", 1}, start_);
    }

    [[nodiscard]] TaskStatus status(std::string const& id) const {
        return task_status(table_.levels().at(model::TaskId(id)));
    }

    TimePoint const start_ = TimePoint(1h);
    Result<void> start_result_;
    std::vector<std::string> started_;
    std::vector<std::string> cancelled_;
    int levels_changes_ = 0;
    TaskTable table_;
};

TEST_F(TaskTableTest, a_task_seen_before_is_resumed_and_never_started_twice) {
    ASSERT_TRUE(table_.open(request("a")));
    ASSERT_TRUE(table_.open(request("a")));
    EXPECT_EQ(started_, (std::vector<std::string>{"a"}));
}

TEST_F(TaskTableTest, a_refused_start_leaves_no_task) {
    start_result_ = Error(Errc::unavailable, "loading");
    EXPECT_EQ(table_.open(request("a")).error().code(), Errc::unavailable);
    EXPECT_EQ(table_.events(model::TaskId("a")), nullptr);
    EXPECT_TRUE(table_.levels().empty());
}

TEST_F(TaskTableTest, resuming_what_is_gone_is_refused_and_starts_nothing) {
    auto open = request("a");
    open.resume = true;
    EXPECT_EQ(table_.open(open).error().code(), Errc::not_found);
    EXPECT_TRUE(started_.empty());
}

TEST_F(TaskTableTest, a_client_goes_on_at_the_delta_that_it_lacks) {
    model::TaskId const id("a");
    ASSERT_TRUE(table_.open(request("a")));
    table_.on_event(id, model::PrefillProgress{5, 5}, start_);
    say("a", 0);
    say("a", 1);
    say("a", 2);
    EXPECT_EQ(table_.first_event(id, 0), 0u);
    EXPECT_EQ(table_.first_event(id, 2), 3u);
    EXPECT_EQ(table_.first_event(id, 3), 4u); // What comes next.
    table_.on_event(id, GenerationFinished{}, start_);
    EXPECT_EQ(table_.first_event(id, 3), 4u); // The end.
}

TEST_F(TaskTableTest, a_terminal_status_is_final) {
    ASSERT_TRUE(table_.open(request("a")));
    table_.on_event(model::TaskId("a"), GenerationFinished{}, start_);
    say("a", 0);
    table_.cancel(model::TaskId("a"), start_);
    table_.instance_ended(model::InstanceId("instance"), "crash", start_);
    EXPECT_EQ(status("a"), TaskStatus::complete);
    EXPECT_EQ(table_.events(model::TaskId("a"))->size(), 1u);
    EXPECT_TRUE(cancelled_.empty());
}

TEST_F(TaskTableTest, a_lost_client_may_come_back_until_the_limit) {
    ASSERT_TRUE(table_.open(request("a")));
    table_.client_lost(model::TaskId("a"), start_);
    table_.tick({}, start_ + TaskTable::resume_limit - 1ms);
    EXPECT_TRUE(cancelled_.empty());
    ASSERT_TRUE(table_.open(request("a")));
    table_.tick({}, start_ + TaskTable::resume_limit * 2);
    EXPECT_TRUE(cancelled_.empty());
    table_.client_lost(model::TaskId("a"), start_);
    table_.tick({}, start_ + TaskTable::resume_limit);
    EXPECT_EQ(cancelled_, (std::vector<std::string>{"a"}));
    EXPECT_EQ(status("a"), TaskStatus::cancelled);
}

TEST_F(TaskTableTest, the_loss_of_an_old_stream_does_not_count_against_the_new_one) {
    ASSERT_TRUE(table_.open(request("a")));
    ASSERT_TRUE(table_.open(request("a")));
    table_.client_lost(model::TaskId("a"), start_);
    table_.tick({}, start_ + 1h);
    EXPECT_TRUE(cancelled_.empty());
}

TEST_F(TaskTableTest, a_runner_that_ends_fails_its_open_tasks_with_the_reason) {
    ASSERT_TRUE(table_.open(request("a")));
    table_.instance_ended(model::InstanceId("another"), "crash", start_);
    EXPECT_EQ(status("a"), TaskStatus::running);
    table_.instance_ended(model::InstanceId("instance"), "crash", start_);
    EXPECT_EQ(status("a"), TaskStatus::failed);
    auto const& last = table_.events(model::TaskId("a"))->back();
    EXPECT_EQ(std::get<GenerationFailed>(last).message, "crash");
}

TEST_F(TaskTableTest, an_ended_task_is_kept_until_the_cluster_knows_its_end) {
    model::TaskId const id("a");
    ASSERT_TRUE(table_.open(request("a")));
    table_.on_event(id, GenerationFinished{}, start_);
    table_.tick({}, start_ + TaskTable::kept_after_end);
    EXPECT_NE(table_.events(id), nullptr);
    model::State state;
    model::TextGeneration known;
    known.task_status = TaskStatus::complete;
    state.tasks.emplace(id, known);
    table_.tick(state, start_ + TaskTable::kept_after_end - 1ms);
    EXPECT_NE(table_.events(id), nullptr);
    table_.tick(state, start_ + TaskTable::kept_after_end);
    EXPECT_EQ(table_.events(id), nullptr);
}

TEST_F(TaskTableTest, an_end_that_nobody_takes_over_is_forgotten_at_last) {
    model::TaskId const id("a");
    ASSERT_TRUE(table_.open(request("a")));
    table_.on_event(id, GenerationFinished{}, start_);
    table_.tick({}, start_ + TaskTable::level_limit);
    EXPECT_EQ(table_.events(id), nullptr);
}

TEST_F(TaskTableTest, too_many_tasks_are_refused_with_the_number) {
    for (std::size_t i = 0; i < TaskTable::tasks_max; ++i) {
        ASSERT_TRUE(table_.open(request(std::to_string(i))));
    }
    auto const refused = table_.open(request("one more"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), Errc::limit);
}

TEST_F(TaskTableTest, levels_change_when_a_task_begins_and_when_it_ends) {
    ASSERT_TRUE(table_.open(request("a")));
    EXPECT_EQ(levels_changes_, 1);
    say("a", 0);
    EXPECT_EQ(levels_changes_, 1);
    table_.on_event(model::TaskId("a"), GenerationFinished{}, start_);
    EXPECT_EQ(levels_changes_, 2);
}

} // namespace
} // namespace exo::node
