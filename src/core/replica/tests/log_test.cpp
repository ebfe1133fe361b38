// SPDX-License-Identifier: Apache-2.0
#include "core/replica/log.hpp"
#include "core/replica/record.hpp"

#include <gtest/gtest.h>

namespace exo::replica {
namespace {

model::Session const first{model::NodeId("a"), 1, 11};
model::Session const second{model::NodeId("b"), 2, 22};

// Appends, as the master of `session` would.
void add(Log& log, model::Session const& session, model::Event const& event) {
    ASSERT_TRUE(log.append(log.next_record(session, event)));
}

void begin(Log& log, model::Session const& session) {
    add(log, session, model::SessionStarted{session, log.position().index});
}

model::NodeTimedOut event(std::int64_t number) {
    return {model::NodeId("n" + std::to_string(number))};
}

Log filled(std::int64_t count) {
    Log log;
    begin(log, first);
    for (std::int64_t i = 0; i < count; ++i) {
        add(log, first, event(i));
    }
    return log;
}

TEST(Log, begins_empty_and_counts_from_zero) {
    Log log;
    EXPECT_EQ(log.position(), model::Position{});
    EXPECT_FALSE(log.session());
    begin(log, first);
    EXPECT_EQ(log.position(), (model::Position{first, 0}));
    EXPECT_EQ(log.session(), first);
}

TEST(Log, an_index_that_is_not_the_next_is_refused) {
    Log log = filled(2);
    auto record = log.next_record(first, event(9));
    ++record.position.index;
    EXPECT_EQ(log.append(record).error().code(), Errc::protocol);
    EXPECT_EQ(log.position().index, 2);
}

TEST(Log, a_session_needs_its_start) {
    Log log = filled(2);
    EXPECT_EQ(log.append(log.next_record(second, event(9))).error().code(), Errc::protocol);
    begin(log, second);
    EXPECT_TRUE(log.append(log.next_record(second, event(9))));
    EXPECT_EQ(log.append(log.next_record(first, event(9))).error().code(), Errc::protocol);
}

TEST(Log, a_session_starts_where_it_says) {
    Log log = filled(2);
    EXPECT_FALSE(log.append(log.next_record(second, model::SessionStarted{second, 1})));
    EXPECT_FALSE(log.append(log.next_record(second, model::SessionStarted{first, 2})));
    EXPECT_TRUE(log.append(log.next_record(second, model::SessionStarted{second, 2})));
}

TEST(Log, another_content_at_a_position_is_refused_by_the_chain) {
    Log log = filled(2);
    Log other = filled(1);
    add(other, first, event(77));
    EXPECT_EQ(log.append(other.next_record(first, event(3))).error().code(), Errc::corrupt);
}

TEST(Log, the_chain_is_known) {
    EXPECT_EQ(chain_start(), std::string(32, '0'));
    // printf '%s' 00000000000000000000000000000000abc | sha256sum
    EXPECT_EQ(chain_after(chain_start(), "abc"), "af1f0da87873662f687d436bbf2c38eb");
}

TEST(Log, an_unknown_event_only_advances_the_index) {
    Log log = filled(1);
    auto const before = log.state();
    std::string const text = R"({"FromTheFuture":{"x":1}})";
    ASSERT_TRUE(log.append({{first, 2}, text, chain_after(log.chain(), text)}));
    EXPECT_EQ(log.position().index, 2);
    auto expected = before;
    expected.last_event_applied_idx = 2;
    EXPECT_EQ(log.state(), expected);
    EXPECT_EQ(log.after({first, 1}).records.front().event, text); // Verbatim.
}

TEST(Log, a_range_continues_the_askers_log) {
    Log const log = filled(5);
    Log behind = filled(2);
    auto const range = log.after(behind.position());
    EXPECT_FALSE(range.snapshot);
    ASSERT_EQ(range.records.size(), 3);
    for (auto const& record : range.records) {
        ASSERT_TRUE(behind.append(record));
    }
    EXPECT_EQ(behind.state(), log.state());
    EXPECT_EQ(behind.chain(), log.chain());
}

TEST(Log, who_has_everything_gets_nothing) {
    Log const log = filled(5);
    auto const range = log.after(log.position());
    EXPECT_TRUE(range.records.empty());
    EXPECT_FALSE(range.snapshot);
}

TEST(Log, a_fork_gets_a_snapshot) {
    Log const log = filled(5);
    EXPECT_TRUE(log.after({second, 3}).snapshot);
    EXPECT_TRUE(log.after({first, 99}).snapshot);
}

TEST(Log, a_range_is_bounded) {
    Log const log = filled(2 * range_records_max);
    EXPECT_EQ(log.after({}).records.size(), range_records_max);
}

TEST(Log, who_is_too_far_behind_gets_a_snapshot) {
    Log const log = filled(log_records_max + 5);
    EXPECT_TRUE(log.after({}).snapshot);
    EXPECT_TRUE(log.after({first, 4}).snapshot);
    EXPECT_FALSE(log.after({first, 5}).snapshot);
}

TEST(Log, a_snapshot_replaces_everything_and_the_log_goes_on) {
    Log log = filled(5);
    Log other;
    begin(other, second);
    add(other, second, event(1));
    ASSERT_TRUE(other.install(log.snapshot()));
    EXPECT_EQ(other.state(), log.state());
    auto const next = log.next_record(first, event(6));
    ASSERT_TRUE(log.append(next));
    ASSERT_TRUE(other.append(next));
    EXPECT_TRUE(other.after({first, 2}).snapshot); // Its records begin after the snapshot.
    EXPECT_EQ(other.after({first, 5}).records.size(), 1);
}

TEST(Log, a_snapshot_of_another_position_than_its_state_is_refused) {
    Log log = filled(5);
    auto snapshot = log.snapshot();
    ++snapshot.position.index;
    EXPECT_FALSE(log.install(snapshot));
    EXPECT_FALSE(log.install({}));
    EXPECT_EQ(log.position().index, 5);
}

} // namespace
} // namespace exo::replica
