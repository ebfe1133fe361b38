// SPDX-License-Identifier: Apache-2.0
#include "core/replica/log.hpp"
#include "core/replica/replica.hpp"

#include <gtest/gtest.h>

namespace exo::replica {
namespace {

using model::NodeId;

TimePoint const start{1h};
NodeId const self("m");
NodeId const peer("z");

// One replica and what it has put out since the last clear().
struct Node {
    explicit Node(Config config = {.self = self, .boot = 7, .seed = 1})
        : replica(std::move(config), start) {
        feed(Started{});
    }

    Node& feed(Input const& input) {
        for (auto& output : replica.step(input, now)) {
            outputs.push_back(std::move(output));
        }
        return *this;
    }

    // Ticks whenever it asks for it.
    Node& wait(Duration time) {
        auto const end = now + time;
        while (replica.deadline() <= end) {
            auto const before = now;
            now = std::max(now, replica.deadline());
            feed(Tick{});
            stuck = now == before ? stuck + 1 : 0;
            EXPECT_LT(stuck, 100) << "its deadline stays in the past";
        }
        now = end;
        return feed(Tick{});
    }

    Node& receive(Message message, NodeId const& from = peer) {
        return feed(MessageReceived{from, std::move(message), false, {}});
    }

    Node& hear(Message message, NodeId const& from = peer) {
        return feed(MessageReceived{from, std::move(message), true, {}});
    }

    void clear() { outputs.clear(); }

    template <class T>
    [[nodiscard]] std::vector<T> put_out() const {
        std::vector<T> found;
        for (auto const& output : outputs) {
            if (auto const* const one = std::get_if<T>(&output)) {
                found.push_back(*one);
            }
        }
        return found;
    }

    template <class T>
    [[nodiscard]] std::vector<T> sent() const {
        std::vector<T> found;
        for (auto const& send : put_out<Send>()) {
            if (auto const* const one = std::get_if<T>(&send.message)) {
                found.push_back(*one);
            }
        }
        return found;
    }

    Replica replica;
    TimePoint now = start;
    Outputs outputs;
    int stuck = 0;
};

// What a master "z" would say.
struct Master {
    Master() { append(model::SessionStarted{session, -1}); }

    Record append(model::Event const& event) {
        auto record = log.next_record(session, event);
        EXPECT_TRUE(log.append(record));
        return record;
    }

    [[nodiscard]] Beat beat() {
        return {
            .boot = 9,
            .session = session,
            .applied = log.position().index,
            .ballot = ballot,
            .standing = election::Standing{ballot, ++seq, session, log.position().index}
        };
    }

    model::Session session{peer, 5, 55};
    election::Ballot ballot{.clock = 5, .seniority = 2, .node_id = peer, .boot = 9};
    std::uint64_t seq = 0;
    Log log;
};

// A node that has joined the session of `master`, up to its head.
Node follower(Master& master) {
    Node node;
    node.feed(PeerConnected{peer}).receive(master.beat());
    auto const joins = node.sent<JoinRequest>();
    EXPECT_EQ(joins.size(), 1);
    master.append(model::NodeJoined{self, 7, joins[0].report.report_id});
    master.append(model::NodeSettled{self, joins[0].report.report_id});
    node.receive(JoinAccepted{master.session, joins[0].report.report_id});
    node.receive(RangeAnswer{master.session, master.log.after({}).records, {}});
    EXPECT_TRUE(node.replica.settled());
    node.clear();
    return node;
}

model::Command const some_command = model::DeleteInstance{model::InstanceId("i")};

// --- Leading ---

TEST(Replica, a_lone_node_leads_after_the_boot_hold_and_is_settled) {
    Node node;
    node.wait(999ms);
    EXPECT_FALSE(node.replica.leading());
    EXPECT_FALSE(node.replica.master());
    node.wait(1ms);
    EXPECT_TRUE(node.replica.leading());
    EXPECT_EQ(node.replica.master(), self);
    EXPECT_TRUE(node.replica.settled());
    EXPECT_EQ(node.put_out<MasterChanged>().size(), 1);
}

TEST(Replica, the_clock_is_stored_before_anything_is_said) {
    Node const node;
    ASSERT_FALSE(node.outputs.empty());
    EXPECT_TRUE(std::holds_alternative<StoreClock>(node.outputs.front()));
}

TEST(Replica, a_new_master_asks_its_peers_for_their_tails_first) {
    Node node({.self = self, .boot = 7, .force_master = true, .seed = 1});
    node.feed(PeerConnected{peer});
    node.wait(200ms); // A campaign opens; the peer votes.
    node.receive(Beat{.ballot = {.clock = 2, .node_id = peer}});
    node.wait(1s);
    ASSERT_EQ(node.sent<TailRequest>().size(), 1);
    EXPECT_FALSE(node.replica.leading());
    Master old;
    old.append(model::NodeTimedOut{NodeId("x")});
    node.receive(TailAnswer{{}, old.log.after({}).records, {}});
    EXPECT_TRUE(node.replica.leading());
    EXPECT_EQ(node.replica.state().lineage.size(), 2);
    EXPECT_EQ(node.replica.state().lineage[0].session, old.session);
}

TEST(Replica, recovery_takes_no_longer_than_half_a_second) {
    Node node({.self = self, .boot = 7, .force_master = true, .seed = 1});
    node.feed(PeerConnected{peer});
    node.wait(200ms);
    node.receive(Beat{.ballot = {.clock = 2, .node_id = peer}});
    node.wait(1400ms);
    EXPECT_TRUE(node.replica.leading());
}

TEST(Replica, a_master_that_learns_of_a_greater_ballot_stops_in_that_step) {
    Node node;
    node.wait(1s).feed(PeerConnected{peer});
    Master master;
    node.receive(master.beat());
    EXPECT_FALSE(node.replica.leading());
    EXPECT_EQ(node.replica.master(), peer);
}

TEST(Replica, a_master_answers_a_join_with_the_nodes_events) {
    Node node;
    node.wait(1s).feed(PeerConnected{peer});
    model::Report report;
    report.node_id = peer;
    report.report_id = {9, 1};
    node.receive(JoinRequest{*node.replica.session(), 9, {}, {}, report});
    EXPECT_EQ(node.sent<JoinAccepted>().size(), 1);
    EXPECT_TRUE(node.replica.state().members.at(peer).settled);
    auto const position = node.replica.position();
    node.receive(JoinRequest{*node.replica.session(), 9, {}, {}, report}); // Repeated.
    EXPECT_EQ(node.sent<JoinAccepted>().size(), 2);
    EXPECT_EQ(node.replica.position(), position);
}

TEST(Replica, a_join_for_another_or_for_another_session_is_dropped) {
    Node node;
    node.wait(1s).feed(PeerConnected{peer});
    model::Report report;
    report.node_id = NodeId("y");
    report.report_id = {9, 1};
    node.receive(JoinRequest{*node.replica.session(), 9, {}, {}, report});
    report.node_id = peer;
    node.receive(JoinRequest{{self, 1, 1}, 9, {}, {}, report});
    node.receive(JoinRequest{*node.replica.session(), 8, {}, {}, report});
    EXPECT_EQ(node.replica.counters().messages_dropped, 3);
    EXPECT_FALSE(node.replica.state().members.contains(peer));
}

TEST(Replica, a_beat_with_an_unknown_report_is_asked_to_join_anew_once_a_second) {
    Node node;
    node.wait(1s).feed(PeerConnected{peer});
    Beat const beat{
        .boot = 9,
        .report_id = {9, 4},
        .session = node.replica.session(),
        .ballot = {.clock = 1, .seniority = -1, .node_id = peer, .boot = 9}
    };
    node.receive(beat).receive(beat);
    ASSERT_EQ(node.sent<Rejoin>().size(), 1);
    EXPECT_EQ(node.sent<Rejoin>()[0].report_id, (model::ReportId{9, 4}));
    node.now += 1s;
    node.receive(beat);
    EXPECT_EQ(node.sent<Rejoin>().size(), 2);
}

// --- Following ---

TEST(Replica, a_node_joins_the_session_of_the_elected) {
    Master master;
    Node const node = follower(master);
    EXPECT_EQ(node.replica.master(), peer);
    EXPECT_EQ(node.replica.state(), master.log.state());
}

TEST(Replica, a_join_is_repeated_unchanged_each_second) {
    Master master;
    Node node;
    node.feed(PeerConnected{peer}).receive(master.beat());
    node.wait(500ms).receive(master.beat()).wait(1500ms);
    auto const joins = node.sent<JoinRequest>();
    ASSERT_EQ(joins.size(), 3);
    EXPECT_EQ(joins[0], joins[1]);
    EXPECT_EQ(joins[0], joins[2]);
}

TEST(Replica, only_the_masters_own_events_of_its_session_are_applied) {
    Master master;
    Node node = follower(master);
    auto const record = master.append(model::NodeTimedOut{NodeId("x")});
    node.hear(record, NodeId("y")); // Another author.
    auto other = record;
    other.position.session.nonce = 1;
    node.hear(other); // Another session.
    EXPECT_EQ(node.replica.position().index, record.position.index - 1);
    node.hear(record);
    EXPECT_EQ(node.replica.position().index, record.position.index);
    node.hear(record); // Twice.
    EXPECT_EQ(node.replica.position().index, record.position.index);
    EXPECT_EQ(node.replica.counters().messages_dropped, 3);
}

TEST(Replica, an_event_ahead_waits_and_the_gap_is_asked_for_after_100_ms) {
    Master master;
    Node node = follower(master);
    auto const missed = master.append(model::NodeTimedOut{NodeId("x")});
    auto const ahead = master.append(model::NodeTimedOut{NodeId("y")});
    node.hear(ahead);
    node.wait(99ms);
    EXPECT_EQ(node.sent<RangeRequest>().size(), 0);
    node.wait(1ms);
    ASSERT_EQ(node.sent<RangeRequest>().size(), 1);
    EXPECT_EQ(node.sent<RangeRequest>()[0].after, node.replica.position());
    node.receive(RangeAnswer{master.session, {missed}, {}});
    EXPECT_EQ(node.replica.position(), master.log.position());
}

TEST(Replica, a_lost_last_event_is_noticed_by_the_standing) {
    Master master;
    Node node = follower(master);
    master.append(model::NodeTimedOut{NodeId("x")});
    node.receive(master.beat()).wait(100ms);
    EXPECT_EQ(node.sent<RangeRequest>().size(), 1);
}

TEST(Replica, the_gap_timer_doubles_up_to_a_second) {
    Master master;
    Node node = follower(master);
    master.append(model::NodeTimedOut{NodeId("x")});
    for (int i = 0; i < 12; ++i) {
        node.receive(master.beat()).wait(250ms);
    }
    EXPECT_EQ(node.sent<RangeRequest>().size(), 6); // After 0.1, 0.2, 0.4, 0.8, 1.6 and 2.6 s.
}

TEST(Replica, events_far_ahead_are_bounded) {
    Master master;
    Node node = follower(master);
    auto record = master.append(model::NodeTimedOut{NodeId("x")});
    for (int i = 0; i < 5000; ++i) {
        ++record.position.index;
        node.hear(record);
    }
    EXPECT_EQ(node.replica.counters().events_ahead_dropped, 5000 - 4096);
}

TEST(Replica, a_record_that_breaks_the_chain_costs_a_snapshot) {
    Master master;
    Node node = follower(master);
    auto record = master.append(model::NodeTimedOut{NodeId("x")});
    record.chain = std::string(32, '0');
    node.hear(record).wait(100ms);
    ASSERT_EQ(node.sent<RangeRequest>().size(), 1);
    EXPECT_TRUE(node.sent<RangeRequest>()[0].snapshot);
    node.receive(RangeAnswer{master.session, {}, master.log.snapshot()});
    EXPECT_EQ(node.replica.state(), master.log.state());
    EXPECT_EQ(node.replica.counters().snapshots_taken, 1);
}

TEST(Replica, a_node_of_another_lineage_takes_the_masters_snapshot) {
    Node node;
    node.wait(1s); // It has led on its own.
    Master master;
    node.feed(PeerConnected{peer}).receive(master.beat());
    auto const report_id = node.sent<JoinRequest>().at(0).report.report_id;
    node.receive(JoinAccepted{master.session, report_id});
    ASSERT_FALSE(node.sent<RangeRequest>().empty());
    auto const range = master.log.after(node.sent<RangeRequest>().back().after);
    ASSERT_TRUE(range.snapshot);
    node.receive(RangeAnswer{master.session, range.records, range.snapshot});
    EXPECT_EQ(node.replica.state(), master.log.state());
    EXPECT_EQ(node.replica.counters().forks_dropped, 1);
}

TEST(Replica, a_snapshot_of_another_session_is_dropped) {
    Master master;
    Node node = follower(master);
    auto const before = node.replica.position();
    Master other;
    other.session.nonce = 1;
    other.log = {};
    other.append(model::SessionStarted{other.session, -1});
    node.receive(RangeAnswer{master.session, {}, other.log.snapshot()});
    EXPECT_EQ(node.replica.position(), before);
}

TEST(Replica, a_follower_hands_out_the_log_of_its_session) {
    Master master;
    Node node = follower(master);
    node.feed(PeerConnected{NodeId("y")});
    node.receive(RangeRequest{master.session, {}}, NodeId("y"));
    ASSERT_EQ(node.sent<RangeAnswer>().size(), 1);
    EXPECT_EQ(node.sent<RangeAnswer>()[0].records, master.log.after({}).records);
    node.receive(RangeRequest{{peer, 5, 1}, {}}, NodeId("y"));
    EXPECT_TRUE(node.sent<RangeAnswer>().at(1).records.empty());
}

TEST(Replica, asked_to_rejoin_it_sends_a_new_report) {
    Master master;
    Node node = follower(master);
    node.receive(Rejoin{master.session, {7, 99}}); // Not its report.
    EXPECT_TRUE(node.sent<JoinRequest>().empty());
    node.receive(Rejoin{master.session, {7, 1}});
    ASSERT_EQ(node.sent<JoinRequest>().size(), 1);
    EXPECT_EQ(node.sent<JoinRequest>()[0].report.report_id, (model::ReportId{7, 2}));
    EXPECT_FALSE(node.replica.settled());
}

TEST(Replica, a_silent_master_is_no_master_and_the_state_stays_readable) {
    Master master;
    Node node = follower(master);
    node.wait(3s);
    EXPECT_EQ(node.replica.master(), std::nullopt);
    EXPECT_EQ(node.replica.state(), master.log.state());
}

// --- Beats ---

TEST(Replica, beats_go_to_all_peers_each_500_ms) {
    Node node;
    node.feed(PeerConnected{peer}).clear();
    for (int i = 0; i < 4; ++i) {
        node.wait(500ms).receive(Beat{.ballot = {.node_id = peer}});
    }
    EXPECT_EQ(node.sent<Beat>().size(), 4);
    EXPECT_TRUE(node.put_out<PeerLost>().empty());
}

TEST(Replica, a_peer_is_lost_once_after_six_missing_beats) {
    Node node;
    node.feed(PeerConnected{peer}).wait(2999ms);
    EXPECT_TRUE(node.put_out<PeerLost>().empty());
    node.wait(1ms);
    EXPECT_EQ(node.put_out<PeerLost>().size(), 1);
    node.wait(5s);
    EXPECT_EQ(node.put_out<PeerLost>().size(), 1);
}

TEST(Replica, a_master_that_is_not_connected_is_told_by_topic) {
    Master master;
    Node node;
    node.hear(election_message(master.ballot, master.beat().standing, 0)).clear();
    node.wait(1s);
    bool told = false;
    for (auto const& publish : node.put_out<Publish>()) {
        told |= std::holds_alternative<Beat>(publish.gossip.message) && publish.gossip.to == peer;
    }
    EXPECT_TRUE(told);
}

TEST(Replica, gossip_for_another_is_not_for_us) {
    Node node;
    node.feed(MessageReceived{peer, CommandRequest{{}, some_command}, true, NodeId("y")});
    EXPECT_TRUE(node.sent<CommandAnswer>().empty());
    EXPECT_TRUE(node.replica.heard().contains(peer));
}

TEST(Replica, a_ballot_in_anothers_name_is_dropped) {
    Node node;
    node.hear(election_message({.clock = 9, .node_id = NodeId("y")}, std::nullopt, 0));
    EXPECT_EQ(node.replica.election().clock, 1);
    EXPECT_EQ(node.replica.counters().messages_dropped, 1);
}

TEST(Replica, a_standing_that_claims_anothers_session_is_dropped) {
    Node node;
    Master master;
    auto standing = *master.beat().standing;
    standing.session->master_node_id = NodeId("y");
    node.hear(election_message(master.ballot, standing, 0));
    EXPECT_EQ(node.replica.counters().messages_dropped, 1);
    EXPECT_EQ(node.replica.election().elected->node_id, self);
}

// --- Copied keys (E13) ---

TEST(Replica, a_copied_key_makes_the_younger_process_give_way) {
    Node node;
    node.wait(5s);
    node.receive(Beat{.boot = 8, .uptime_ms = 6000, .ballot = {.node_id = self}}, self);
    ASSERT_EQ(node.put_out<CopiedKey>().size(), 1);
    EXPECT_TRUE(node.put_out<CopiedKey>()[0].make_new_key);
    node.receive(Beat{.boot = 6, .uptime_ms = 10, .ballot = {.node_id = self}}, self);
    EXPECT_FALSE(node.put_out<CopiedKey>().at(1).make_new_key);
}

TEST(Replica, gossip_of_the_former_self_is_no_copied_key) {
    Node node;
    auto const old = election_message({.node_id = self, .boot = 3}, std::nullopt, 99999);
    node.hear(old, self);
    EXPECT_TRUE(node.put_out<CopiedKey>().empty());
    node.wait(10s).hear(old, self);
    EXPECT_EQ(node.put_out<CopiedKey>().size(), 1);
}

// --- Commands (C1) ---

TEST(Replica, a_master_answers_its_own_users_at_once) {
    Node node;
    node.wait(1s).feed(CommandRequested{model::CommandId("c"), some_command});
    ASSERT_EQ(node.put_out<CommandAnswered>().size(), 1);
    EXPECT_EQ(node.put_out<CommandAnswered>()[0].outcome.error().code(), Errc::not_found);
}

TEST(Replica, a_command_is_repeated_each_second_and_answered_once) {
    Master master;
    Node node = follower(master);
    node.feed(CommandRequested{model::CommandId("c"), some_command});
    node.wait(500ms).receive(master.beat()).wait(1600ms);
    EXPECT_EQ(node.sent<CommandRequest>().size(), 3);
    CommandAnswer const answer{.command_id = model::CommandId("c")};
    node.receive(answer).receive(answer);
    ASSERT_EQ(node.put_out<CommandAnswered>().size(), 1);
    EXPECT_TRUE(node.put_out<CommandAnswered>()[0].outcome);
}

TEST(Replica, a_command_without_a_master_is_unavailable_after_10_s) {
    Master master;
    Node node;
    node.hear(election_message(master.ballot, master.beat().standing, 0));
    node.feed(CommandRequested{model::CommandId("c"), some_command});
    for (int i = 0; i < 9; ++i) {
        node.wait(1s).hear(election_message(master.ballot, master.beat().standing, 0));
    }
    EXPECT_TRUE(node.put_out<CommandAnswered>().empty());
    node.wait(1s);
    ASSERT_EQ(node.put_out<CommandAnswered>().size(), 1);
    EXPECT_EQ(node.put_out<CommandAnswered>()[0].outcome.error().code(), Errc::unavailable);
}

TEST(Replica, a_command_waits_for_the_next_master) {
    Node node;
    node.feed(CommandRequested{model::CommandId("c"), some_command});
    EXPECT_TRUE(node.put_out<CommandAnswered>().empty());
    node.wait(1s);
    EXPECT_EQ(node.put_out<CommandAnswered>().size(), 1);
}

TEST(Replica, who_does_not_lead_says_who_does) {
    Master master;
    Node node = follower(master);
    node.feed(PeerConnected{NodeId("y")});
    node.receive(CommandRequest{model::CommandId("c"), some_command}, NodeId("y"));
    ASSERT_EQ(node.sent<CommandAnswer>().size(), 1);
    EXPECT_EQ(node.sent<CommandAnswer>()[0].verdict, Verdict::not_master);
    EXPECT_EQ(node.sent<CommandAnswer>()[0].standing->ballot.node_id, peer);
}

TEST(Replica, no_more_than_1024_commands_wait) {
    Node node;
    for (int i = 0; i < 1025; ++i) {
        node.feed(CommandRequested{model::CommandId(std::to_string(i)), some_command});
    }
    ASSERT_EQ(node.put_out<CommandAnswered>().size(), 1);
    EXPECT_EQ(node.put_out<CommandAnswered>()[0].command_id, model::CommandId("1024"));
}

// --- Levels (S10) and observations ---

model::Instance instance_on(NodeId const& node) {
    model::RunnerId const runner("r");
    model::PipelineShardMetadata shard;
    shard.end_layer = shard.n_layers = 2;
    shard.model_card.n_layers = 2;
    shard.model_card.model_id = model::ModelId("model");
    model::MlxRingInstance instance;
    instance.instance_id = model::InstanceId("i");
    instance.wish_id = model::WishId("w");
    instance.shard_assignments = {model::ModelId("model"), {{runner, shard}}, {{node, runner}}};
    return instance;
}

TEST(Replica, a_difference_is_submitted_each_second_until_state_says_the_same) {
    Master master;
    Node node = follower(master);
    model::Wish wish;
    wish.wish_id = model::WishId("w");
    node.hear(master.append(model::WishCreated{wish}));
    node.hear(master.append(model::InstanceCreated{instance_on(self), false}));
    LevelsChanged const levels{
        {{instance_on(self), model::RunnerId("r"), model::RunnerReady{}}}, {}
    };
    node.feed(levels);
    ASSERT_EQ(node.sent<LevelSubmission>().size(), 1);
    node.wait(1s);
    EXPECT_EQ(node.sent<LevelSubmission>().size(), 2);
    auto const submission = node.sent<LevelSubmission>()[0];
    ASSERT_EQ(submission.events.size(), 1);
    node.hear(master.append(submission.events[0])).receive(master.beat()).wait(2s);
    EXPECT_EQ(node.sent<LevelSubmission>().size(), 2);
}

TEST(Replica, the_own_info_is_numbered_published_and_told_to_new_peers) {
    Node node;
    node.feed(ObservationChanged{}).feed(ObservationChanged{});
    EXPECT_EQ(node.replica.observations().at(self).sequence, 2);
    EXPECT_EQ(node.replica.observations().at(self).boot, 7);
    node.feed(PeerConnected{peer});
    EXPECT_EQ(node.sent<model::NodeInfo>().size(), 1);
}

TEST(Replica, the_newest_info_of_a_node_wins) {
    Node node;
    auto const info = [](model::Boot boot, std::uint64_t sequence) {
        model::NodeInfo result;
        result.node_id = peer;
        result.boot = boot;
        result.sequence = sequence;
        return result;
    };
    auto const sequence = [&] { return node.replica.observations().at(peer).sequence; };
    node.hear(info(9, 5)).hear(info(9, 4));
    EXPECT_EQ(sequence(), 5);
    node.hear(info(8, 1), NodeId("y")); // Hearsay of another boot.
    EXPECT_EQ(sequence(), 5);
    node.hear(info(8, 1)); // In person: it has restarted.
    EXPECT_EQ(sequence(), 1);
}

// It is what a node on a busy machine says of itself each second.
TEST(Replica, B102_a_lost_node_is_forgotten_while_the_own_info_goes_on_changing) {
    Node node;
    model::NodeInfo info;
    info.node_id = peer;
    info.boot = 9;
    info.sequence = 1;
    node.hear(info);
    for (int i = 0; i < 19; ++i) {
        node.wait(1s).feed(ObservationChanged{});
    }
    EXPECT_TRUE(node.replica.observations().contains(peer));
    for (int i = 0; i < 7; ++i) {
        node.wait(1s).feed(ObservationChanged{});
    }
    EXPECT_FALSE(node.replica.observations().contains(peer));
    EXPECT_TRUE(node.replica.observations().contains(self));
}

TEST(Replica, nobody_tells_us_about_ourselves) {
    Node node;
    node.feed(ObservationChanged{});
    model::NodeInfo info;
    info.node_id = self;
    info.boot = 7;
    info.sequence = 99;
    node.hear(info);
    EXPECT_EQ(node.replica.observations().at(self).sequence, 1);
}

} // namespace
} // namespace exo::replica
