// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/apply.hpp"
#include "core/cluster/duties.hpp"
#include "core/placement/tests/examples.hpp"

#include <gtest/gtest.h>

namespace exo::cluster {
namespace {

using namespace model;
using examples::gib;
using examples::mib;
using examples::node;

TimePoint const start{};
// Long after the session's start.
TimePoint const later = start + 100s;

// A master "a" with a virtual clock; its nodes are heard at each step unless they are `silent`.
struct Master {
    examples::Cluster cluster;
    LastHeard last_heard;
    std::set<NodeId> silent;
    std::set<NodeId> vouched;
    Duties memory;
    TimePoint now = later;

    // What the duties do now, until they have nothing more to do; applied.
    std::vector<Event> act() {
        for (auto const& [id, info] : cluster.observations) {
            if (!silent.contains(id)) {
                last_heard[id] = now;
            }
        }
        std::vector<Event> all;
        for (int round = 0; round < 20; ++round) {
            auto const events = duties(
                memory,
                {.state = cluster.state,
                 .observations = cluster.observations,
                 .last_heard = last_heard,
                 .vouched = vouched,
                 .session_started = start,
                 .now = now}
            );
            for (auto const& event : events) {
                apply(cluster.state, cluster.state.last_event_applied_idx + 1, event);
            }
            all.insert(all.end(), events.begin(), events.end());
            if (events.empty()) {
                return all;
            }
        }
        ADD_FAILURE() << "it never ends";
        return all;
    }

    // Acts each half second for this long; all that was done.
    std::vector<Event> act_for(Duration time) {
        std::vector<Event> all;
        for (TimePoint const end = now + time; now < end;) {
            now += duties_interval;
            auto const events = act();
            all.insert(all.end(), events.begin(), events.end());
        }
        return all;
    }

    void set_status(std::string const& runner, RunnerStatus status) {
        cluster.state.runners[RunnerId(runner)] = std::move(status);
    }
};

template <class T>
std::vector<T> of_kind(std::vector<Event> const& events) {
    std::vector<T> found;
    for (auto const& event : events) {
        if (auto const* const one = std::get_if<T>(&event)) {
            found.push_back(*one);
        }
    }
    return found;
}

// Nodes a, b, c; a wish "w" with the instance "i" on a and b, ready.
Master running() {
    Master master;
    for (std::string const id : {"a", "b", "c"}) {
        master.cluster.add(node(id, 32 * gib));
    }
    master.cluster.state.wishes[WishId("w")] = examples::wish("w");
    master.cluster.state.instances[InstanceId("i")] = examples::instance("i", "w", {"a", "b"});
    master.set_status("i-0", RunnerReady{});
    master.set_status("i-1", RunnerReady{});
    return master;
}

TEST(Duties, a_healthy_cluster_is_left_alone) {
    EXPECT_TRUE(running().act_for(120s).empty());
}

// M1
TEST(Duties, a_node_silent_for_six_seconds_has_timed_out) {
    Master master = running();
    (void)master.act();
    master.silent = {NodeId("c")};
    EXPECT_TRUE(master.act_for(6s).empty());
    EXPECT_EQ(of_kind<NodeTimedOut>(master.act_for(1s)), std::vector{NodeTimedOut{NodeId("c")}});
}

TEST(Duties, a_node_never_heard_is_silent_since_the_session_began) {
    Master master = running();
    master.silent = {NodeId("c")};
    master.now = start + 6s;
    EXPECT_TRUE(of_kind<NodeTimedOut>(master.act()).empty());
    master.now = start + 6001ms;
    EXPECT_EQ(of_kind<NodeTimedOut>(master.act()).size(), 1);
}

TEST(Duties, evidence_from_before_the_session_counts) {
    Master master = running();
    master.silent = {NodeId("c")};
    master.last_heard[NodeId("c")] = start - 5s;
    master.now = start + 1500ms;
    EXPECT_EQ(of_kind<NodeTimedOut>(master.act()).size(), 1);
}

TEST(Duties, a_vouched_node_is_kept_for_a_minute) {
    Master master = running();
    (void)master.act();
    master.silent = {NodeId("b")};
    master.vouched = {NodeId("b")};
    EXPECT_TRUE(master.act_for(60s).empty());
    EXPECT_EQ(of_kind<NodeTimedOut>(master.act_for(5s)).size(), 1);
}

// M2
TEST(Duties, an_instance_without_wish_is_deleted) {
    Master master = running();
    master.cluster.state.wishes.clear();
    auto const deleted = of_kind<InstanceDeleted>(master.act());
    ASSERT_EQ(deleted.size(), 1);
    EXPECT_EQ(deleted[0].reason, DeletionReason::user);
}

TEST(Duties, an_instance_that_lost_a_node_is_deleted_and_its_wish_placed_anew) {
    Master master = running();
    InstanceSettings const wanted{.context_length = 1024, .parallel = 2};
    master.cluster.state.wishes.at(WishId("w")).settings = wanted;
    (void)master.act();
    master.silent = {NodeId("b")};
    auto const events = master.act_for(8s);
    auto const deleted = of_kind<InstanceDeleted>(events);
    ASSERT_EQ(deleted.size(), 1);
    EXPECT_EQ(deleted[0].reason, DeletionReason::node_lost);
    EXPECT_EQ(deleted[0].message, "node b does not answer");
    auto const created = of_kind<InstanceCreated>(events);
    ASSERT_EQ(created.size(), 1);
    EXPECT_EQ(nodes_by_rank(created[0].instance), std::vector{NodeId("a")});
    EXPECT_EQ(wish_id(created[0].instance), WishId("w"));
    EXPECT_NE(instance_id(created[0].instance), InstanceId("i"));
    EXPECT_EQ(std::get<MlxRingInstance>(created[0].instance).replaces, InstanceId("i"));
    EXPECT_EQ(settings(created[0].instance), wanted);
}

TEST(Duties, an_instance_is_not_judged_while_another_rank_is_doubtful) {
    Master master = running();
    (void)master.act();
    apply(
        master.cluster.state,
        master.cluster.state.last_event_applied_idx + 1,
        NodeTimedOut{NodeId("b")}
    );
    master.silent = {NodeId("a"), NodeId("b")};
    master.now += 2s;
    EXPECT_TRUE(of_kind<InstanceDeleted>(master.act()).empty());
    master.silent = {NodeId("b")};
    EXPECT_EQ(of_kind<InstanceDeleted>(master.act()).size(), 1);
}

TEST(Duties, an_instance_is_not_judged_while_a_rank_vouches_for_the_missing_one) {
    Master master = running();
    (void)master.act();
    master.cluster.state.members.erase(NodeId("b"));
    master.silent = {NodeId("b")};
    master.vouched = {NodeId("b")};
    master.now += 2s;
    EXPECT_TRUE(of_kind<InstanceDeleted>(master.act_for(30s)).empty());
    master.vouched.clear();
    EXPECT_EQ(of_kind<InstanceDeleted>(master.act()).size(), 1);
}

// A3
TEST(Duties, nothing_missing_is_judged_in_the_settle_time) {
    Master master = running();
    master.cluster.state.members.erase(NodeId("b"));
    master.cluster.state.wishes[WishId("v")] = examples::wish("v");
    master.set_status("i-0", RunnerFailed{.error_message = "x"});
    master.now = start + settle_time - 1ms;
    EXPECT_TRUE(master.act().empty());
    master.now = start + settle_time;
    EXPECT_FALSE(master.act().empty());
}

TEST(Duties, nothing_missing_is_judged_while_a_report_is_undecided) {
    Master master = running();
    master.cluster.state.members.erase(NodeId("b"));
    master.cluster.state.members.at(NodeId("c")).settled = false;
    EXPECT_TRUE(master.act().empty());
    // A node that has not even joined is no open question: it is heard, or it times out.
    master.cluster.state.members.at(NodeId("c")).report_id = {};
    EXPECT_FALSE(master.act().empty());
}

// M3
TEST(Duties, a_failed_group_is_restarted_with_growing_pauses_and_then_given_up) {
    Master master = running();
    std::vector<std::int64_t> pauses;
    TimePoint failed_at = master.now;
    for (int round = 0; round < 100 && !master.cluster.state.instances.empty(); ++round) {
        if (master.cluster.state.runners.empty() || round == 0) {
            failed_at = master.now;
            master.set_status("i-1", RunnerFailed{.error_message = "out of memory"});
        }
        for (auto const& event : of_kind<InstanceRestarted>(master.act())) {
            EXPECT_EQ(event.generation, pauses.size() + 2);
            pauses.push_back((master.now - failed_at) / 1s);
        }
        master.now += duties_interval;
    }
    EXPECT_EQ(pauses, (std::vector<std::int64_t>{1, 2, 4, 8, 16}));
    Wish const& wish = master.cluster.state.wishes.at(WishId("w"));
    EXPECT_TRUE(wish.failed);
    EXPECT_EQ(wish.refusal, "failed after 5 restarts. b: out of memory");
    EXPECT_TRUE(master.act_for(300s).empty()); // Not placed again by itself.
    master.cluster.add(node("d", 32 * gib));
    apply(
        master.cluster.state,
        master.cluster.state.last_event_applied_idx + 1,
        NodeJoined{.node_id = NodeId("e"), .boot = 1, .report_id = {}}
    );
    EXPECT_EQ(of_kind<InstanceCreated>(master.act()).size(), 1);
}

TEST(Duties, a_group_that_was_well_for_long_is_restarted_with_short_pauses_again) {
    Master master = running();
    for (int failure = 0; failure < 10; ++failure) {
        master.set_status("i-1", RunnerFailed{.error_message = "x"});
        auto const events = master.act_for(1500ms);
        ASSERT_EQ(of_kind<InstanceRestarted>(events).size(), 1) << failure;
        master.set_status("i-0", RunnerReady{});
        master.set_status("i-1", RunnerRunning{});
        EXPECT_TRUE(master.act_for(stable_time + 1s).empty());
    }
}

TEST(Duties, a_missing_status_is_no_failure) {
    Master master = running();
    master.cluster.state.runners.clear();
    EXPECT_TRUE(master.act_for(120s).empty());
}

// M4
TEST(Duties, a_wish_is_placed_on_nodes_heard_within_two_seconds) {
    Master master = running();
    (void)master.act();
    master.cluster.state.wishes[WishId("v")] = examples::wish("v");
    master.cluster.state.wishes.at(WishId("v")).min_nodes = 2;
    master.silent = {NodeId("c")};
    master.now += 2500ms;
    auto const created = of_kind<InstanceCreated>(master.act());
    ASSERT_EQ(created.size(), 1);
    EXPECT_EQ(nodes_by_rank(created[0].instance), (std::vector{NodeId("a"), NodeId("b")}));
}

TEST(Duties, two_wishes_do_not_share_one_memory) {
    Master master;
    master.cluster.add(node("a", 5 * gib)); // Room for one.
    master.cluster.state.wishes[WishId("v")] = examples::wish("v");
    master.cluster.state.wishes[WishId("w")] = examples::wish("w");
    auto const events = master.act();
    EXPECT_EQ(of_kind<InstanceCreated>(events).size(), 1);
    EXPECT_EQ(of_kind<WishRefused>(events).size(), 1);
}

TEST(Duties, a_wish_for_two_nodes_that_lost_one_is_served_by_fewer) {
    Master master;
    master.cluster.add(node("a", 32 * gib)).add(node("b", 32 * gib));
    master.cluster.state.wishes[WishId("w")] = examples::wish("w");
    master.cluster.state.wishes.at(WishId("w")).min_nodes = 2;
    EXPECT_EQ(of_kind<InstanceCreated>(master.act()).size(), 1);
    master.silent = {NodeId("b")};
    auto const created = of_kind<InstanceCreated>(master.act_for(8s));
    ASSERT_EQ(created.size(), 1);
    EXPECT_EQ(nodes_by_rank(created[0].instance), std::vector{NodeId("a")});
}

TEST(Duties, a_wish_for_two_nodes_that_was_never_placed_waits_for_them) {
    Master master;
    master.cluster.add(node("a", 32 * gib));
    master.cluster.state.wishes[WishId("w")] = examples::wish("w");
    master.cluster.state.wishes.at(WishId("w")).min_nodes = 2;
    auto const events = master.act();
    EXPECT_TRUE(of_kind<InstanceCreated>(events).empty());
    EXPECT_EQ(of_kind<WishRefused>(events).size(), 1);
}

Master refused() {
    Master master;
    master.cluster.add(node("a", 300 * mib));
    master.cluster.state.wishes[WishId("w")] = examples::wish("w");
    return master;
}

TEST(Duties, a_refused_wish_shows_the_numbers_once) {
    Master master = refused();
    auto const events = of_kind<WishRefused>(master.act());
    ASSERT_EQ(events.size(), 1);
    EXPECT_NE(events[0].reason.find("a has 300.0 MiB free"), std::string::npos);
    EXPECT_TRUE(master.act_for(300s).empty()); // The same text is not said again.
}

TEST(Duties, a_refused_wish_is_placed_when_memory_comes_free) {
    Master master = refused();
    (void)master.act();
    master.now += 1s;
    master.cluster.observations.at(NodeId("a")).memory.ram_available = {8 * gib};
    EXPECT_EQ(of_kind<InstanceCreated>(master.act()).size(), 1);
    EXPECT_EQ(master.cluster.state.wishes.at(WishId("w")).refusal, "");
}

TEST(Duties, a_refused_wish_is_placed_when_a_node_comes) {
    Master master = refused();
    (void)master.act();
    master.now += 1s;
    master.cluster.add(node("b", 8 * gib));
    EXPECT_EQ(of_kind<InstanceCreated>(master.act()).size(), 1);
}

TEST(Duties, numbers_that_move_all_the_time_fill_no_log) {
    Master master = refused();
    std::size_t said = 0;
    for (int i = 0; i < 240; ++i) { // Two minutes.
        auto& memory = master.cluster.observations.at(NodeId("a")).memory;
        memory.ram_available = {(i % 2 == 0 ? 100 : 400) * mib + static_cast<std::uint64_t>(i)};
        said += of_kind<WishRefused>(master.act_for(duties_interval)).size();
    }
    EXPECT_LE(said, 6); // At 0, 5, 15, 35, 75 s.
    EXPECT_GE(said, 1);
}

TEST(Duties, instances_placed_anew_have_new_ids_in_each_fork) {
    Master one = refused();
    one.cluster.observations.at(NodeId("a")).memory.ram_available = {8 * gib};
    Master two = one;
    one.cluster.state.lineage = {{.session = {.nonce = 1}, .first_index = 0}};
    two.cluster.state.lineage = {{.session = {.nonce = 2}, .first_index = 0}};
    auto const a = of_kind<InstanceCreated>(one.act());
    auto const b = of_kind<InstanceCreated>(two.act());
    ASSERT_EQ(a.size(), 1);
    ASSERT_EQ(b.size(), 1);
    EXPECT_NE(instance_id(a[0].instance), instance_id(b[0].instance));
}

TEST(Duties, memory_of_what_is_gone_is_forgotten) {
    Master master = refused();
    (void)master.act();
    EXPECT_EQ(master.memory.wishes.size(), 1);
    master.cluster.state.wishes.clear();
    (void)master.act();
    EXPECT_TRUE(master.memory.wishes.empty());
}

} // namespace
} // namespace exo::cluster
