// SPDX-License-Identifier: Apache-2.0
#include "base/random.hpp"
#include "core/election/election.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace exo::election {
namespace {

using model::NodeId;

TimePoint const start{1h};

NodeId id(std::string name) {
    return NodeId(std::move(name));
}

// One node "m" (or another), with its last outputs.
struct Node {
    explicit Node(std::string name = "m", std::uint64_t stored_clock = 0, int seniority = 0) {
        state.self = id(std::move(name));
        state.boot = 1;
        state.seniority = seniority;
        feed(Started{stored_clock});
    }

    Node& feed(Input const& input) {
        outputs = step(state, input, facts, now);
        return *this;
    }

    Node& wait(Duration time) {
        now += time;
        return feed(Tick{});
    }

    Node& ballot(Ballot const& ballot, bool informed = false) {
        return feed(BallotReceived{ballot.node_id, ballot, informed});
    }

    Node& standing(Standing const& standing) {
        return feed(StandingReceived{standing.ballot.node_id, standing});
    }

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

    [[nodiscard]] NodeId elected() const { return state.elected->node_id; }

    State state;
    Facts facts;
    TimePoint now = start;
    Outputs outputs;
};

Ballot of(std::uint64_t clock, std::int32_t seniority, std::string name) {
    return {.clock = clock, .seniority = seniority, .node_id = id(std::move(name)), .boot = 9};
}

Standing claim(Ballot const& ballot, std::uint64_t seq = 1) {
    return {.ballot = ballot, .seq = seq, .session = model::Session{ballot.node_id, 1, 1}};
}

// A node that follows "z", elected in clock 5.
Node follower() {
    Node node("m", 1);
    node.standing(claim(of(5, 3, "z")));
    return node;
}

// --- Start ---

TEST(Election, a_start_enters_the_clock_after_the_stored_one_and_elects_itself) {
    Node const node("m", 41);
    EXPECT_EQ(node.state.clock, 42);
    EXPECT_EQ(node.elected(), id("m"));
    EXPECT_FALSE(node.state.campaign);
}

TEST(Election, a_clock_is_stored_before_anything_that_carries_it_is_said) {
    Node const node("m", 41);
    ASSERT_FALSE(node.outputs.empty());
    EXPECT_EQ(std::get<StoreClock>(node.outputs.front()).clock, 42);
}

TEST(Election, the_first_campaign_makes_no_senior) {
    EXPECT_EQ(Node("m").state.seniority, 0);
    EXPECT_EQ(Node("m", 0, forced_seniority).state.own.seniority, forced_seniority);
}

// --- Connection changes (E4) ---

TEST(Election, changes_are_gathered_for_200_ms_from_the_first) {
    Node node;
    node.feed(PeerConnected{id("a")});
    node.now += 150ms;
    node.feed(PeerConnected{id("b")});
    EXPECT_EQ(node.state.clock, 1);
    node.wait(50ms);
    EXPECT_EQ(node.state.clock, 2);
    EXPECT_TRUE(node.state.campaign);
    EXPECT_EQ(node.put_out<Announce>().size(), 1);
}

TEST(Election, a_change_during_a_campaign_repeats_the_ballot_and_enters_no_clock) {
    Node node;
    node.feed(PeerConnected{id("a")}).wait(200ms);
    auto const deadline_before = node.state.campaign->deadline;
    node.feed(PeerConnected{id("b")}).wait(200ms);
    EXPECT_EQ(node.state.clock, 2);
    EXPECT_EQ(node.state.campaign->deadline, deadline_before);
    ASSERT_EQ(node.put_out<Announce>().size(), 1);
    EXPECT_EQ(node.put_out<Announce>()[0].ballot, node.state.own);
}

TEST(Election, whoever_is_left_alone_elects_itself_at_once) {
    Node node = follower();
    node.feed(PeerConnected{id("z")}).wait(200ms);
    node.feed(PeerDisconnected{id("z")}).wait(3s);
    EXPECT_EQ(node.elected(), id("m"));
}

// --- Ballots (E5, E6) ---

TEST(Election, a_higher_clock_opens_a_campaign_with_both_ballots) {
    Node node;
    node.feed(PeerConnected{id("a")}).feed(PeerConnected{id("b")});
    node.ballot(of(7, 0, "a"));
    EXPECT_EQ(node.state.clock, 7);
    EXPECT_EQ(node.state.ballots.size(), 2);
    ASSERT_TRUE(node.state.campaign);
    EXPECT_EQ(node.state.campaign->deadline, node.now + campaign_time);
}

TEST(Election, at_the_deadline_the_greatest_ballot_is_elected_and_the_own_one_repeated) {
    Node node;
    node.feed(PeerConnected{id("a")}).feed(PeerConnected{id("b")});
    node.ballot(of(7, 2, "a"));
    node.state.gather_until.reset();
    node.wait(campaign_time);
    EXPECT_EQ(node.elected(), id("a"));
    EXPECT_EQ(node.put_out<Announce>().size(), 1);
}

TEST(Election, a_greater_ballot_after_the_campaign_is_elected_at_once) {
    Node node("m", 4);
    node.ballot(of(5, 2, "a"));
    EXPECT_EQ(node.elected(), id("a"));
    EXPECT_EQ(node.put_out<Elected>().size(), 1);
}

TEST(Election, a_lesser_ballot_after_the_campaign_is_answered) {
    Node node = follower();
    node.ballot(of(5, 0, "a"));
    ASSERT_EQ(node.put_out<Answer>().size(), 1);
    EXPECT_EQ(node.put_out<Answer>()[0].standing, claim(of(5, 3, "z")));
    EXPECT_EQ(node.elected(), id("z"));
}

TEST(Election, a_lower_clock_is_answered_with_the_own_ballot_while_a_campaign_is_open) {
    Node node("m", 8);
    node.feed(PeerConnected{id("a")}).wait(200ms);
    node.ballot(of(3, 9, "a"));
    ASSERT_EQ(node.put_out<Answer>().size(), 1);
    EXPECT_EQ(node.put_out<Answer>()[0].ballot, node.state.own);
    EXPECT_FALSE(node.put_out<Answer>()[0].standing);
}

TEST(Election, a_peer_is_answered_at_most_once_in_500_ms) {
    Node node = follower();
    EXPECT_EQ(node.ballot(of(4, 0, "a")).put_out<Answer>().size(), 1);
    node.now += 499ms;
    EXPECT_EQ(node.ballot(of(4, 0, "a")).put_out<Answer>().size(), 0);
    EXPECT_EQ(node.ballot(of(4, 0, "b")).put_out<Answer>().size(), 1);
    node.now += 1ms;
    EXPECT_EQ(node.ballot(of(4, 0, "a")).put_out<Answer>().size(), 1);
}

TEST(Election, who_is_informed_is_not_answered) {
    EXPECT_EQ(follower().ballot(of(5, 0, "a"), true).put_out<Answer>().size(), 0);
    EXPECT_EQ(follower().ballot(of(4, 0, "a"), true).put_out<Answer>().size(), 0);
}

TEST(Election, the_own_ballot_coming_back_changes_nothing) {
    Node node;
    auto const before = node.state;
    node.ballot(of(99, 99, "m"));
    EXPECT_EQ(node.state, before);
}

// --- Seniority (E2, E3) ---

TEST(Election, winning_makes_senior_by_the_number_of_distinct_voters) {
    Node node("z");
    node.feed(PeerConnected{id("a")}).feed(PeerConnected{id("b")}).wait(200ms);
    node.ballot(of(2, 0, "a"));
    node.ballot(of(2, 0, "a")); // Again: no second voter.
    EXPECT_TRUE(node.state.campaign);
    node.ballot(of(2, 0, "b"));
    EXPECT_FALSE(node.state.campaign);
    EXPECT_EQ(node.state.seniority, 3);
    EXPECT_EQ(node.state.elected->seniority, 3);
    EXPECT_EQ(node.put_out<Announce>()[0].ballot.seniority, 3); // Reissued.
}

TEST(Election, losing_makes_no_senior) {
    Node node("a");
    node.feed(PeerConnected{id("z")}).wait(200ms);
    node.ballot(of(2, 0, "z"));
    EXPECT_EQ(node.elected(), id("z"));
    EXPECT_EQ(node.state.seniority, 0);
}

TEST(Election, of_one_nodes_ballots_the_greatest_counts) {
    Node node("m");
    node.feed(PeerConnected{id("a")}).feed(PeerConnected{id("b")}).wait(200ms);
    node.ballot(of(2, 5, "a"));
    node.ballot(of(2, 1, "a"));
    node.ballot(of(2, 3, "b"));
    EXPECT_EQ(node.elected(), id("a"));
}

TEST(Election, who_cannot_write_its_log_stands_with_less_than_nothing) {
    Node node("z");
    node.feed(PeerConnected{id("a")});
    node.feed(LogFailed{});
    EXPECT_EQ(node.state.own.seniority, -1);
    node.ballot(of(node.state.clock, 0, "a"));
    EXPECT_EQ(node.elected(), id("a"));
}

TEST(Election, who_cannot_write_its_log_still_leads_when_alone) {
    Node node("z");
    node.feed(LogFailed{});
    EXPECT_EQ(node.elected(), id("z"));
    EXPECT_EQ(node.state.seniority, -1);
}

// One row for each rule of precedence; the winner is the same whoever counts.
struct Row {
    char const* rule;
    Ballot lower, higher;
};

class Precedence : public testing::TestWithParam<Row> {};

TEST_P(Precedence, the_higher_ballot_wins) {
    for (auto const& [first, second] :
         {std::pair{GetParam().lower, GetParam().higher},
          std::pair{GetParam().higher, GetParam().lower}}) {
        Node node("0", 0, -1);
        node.feed(PeerConnected{id("absent")});
        node.ballot(first);
        node.ballot(second);
        node.state.gather_until.reset();
        node.wait(campaign_time);
        EXPECT_EQ(*node.state.elected, GetParam().higher);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    Precedence,
    testing::Values(
        Row{"clock", {4, 9, 9, id("z"), 1}, {5, 0, 0, id("a"), 1}},
        Row{"seniority", {5, 1, 9, id("z"), 1}, {5, 2, 0, id("a"), 1}},
        Row{"commands_seen", {5, 1, 0, id("z"), 1}, {5, 1, 9, id("a"), 1}},
        Row{"node_id", {5, 1, 0, id("a"), 1}, {5, 1, 0, id("z"), 1}}
    ),
    [](auto const& row) { return row.param.rule; }
);

// --- The early end (E12) ---

TEST(Election, a_campaign_ends_when_all_connected_peers_have_voted) {
    Node node;
    node.feed(PeerConnected{id("a")}).feed(PeerConnected{id("b")}).wait(200ms);
    node.ballot(of(2, 0, "a"));
    EXPECT_TRUE(node.state.campaign);
    node.ballot(of(2, 0, "b"));
    EXPECT_FALSE(node.state.campaign);
}

TEST(Election, a_campaign_does_not_end_early_without_the_ballot_of_the_living_master) {
    Node node = follower(); // Of z, through a: z is not connected.
    node.feed(PeerConnected{id("a")}).wait(200ms);
    node.ballot(of(6, 0, "a"));
    EXPECT_TRUE(node.state.campaign);
    node.ballot(of(6, 3, "z"));
    EXPECT_FALSE(node.state.campaign);
    EXPECT_EQ(node.elected(), id("z"));
}

TEST(Election, a_master_that_has_just_left_is_not_waited_for) {
    Node node = follower();
    node.feed(PeerConnected{id("a")}).feed(PeerConnected{id("z")});
    node.state.gather_until.reset();
    node.feed(PeerDisconnected{id("z")}).wait(200ms);
    EXPECT_TRUE(node.state.campaign);
    node.ballot(of(6, 0, "a"));
    EXPECT_FALSE(node.state.campaign);
    EXPECT_EQ(node.elected(), id("m"));
}

TEST(Election, a_vanished_peer_is_not_waited_for) {
    Node node;
    node.feed(PeerConnected{id("a")}).feed(PeerConnected{id("b")}).wait(200ms);
    node.ballot(of(2, 0, "a"));
    node.feed(PeerDisconnected{id("b")});
    EXPECT_FALSE(node.state.campaign);
}

// --- Standings (E7, E10) ---

TEST(Election, a_higher_standing_is_believed_at_once_by_who_has_nothing_better) {
    Node node("m", 1);
    node.standing(claim(of(5, 0, "z")));
    EXPECT_EQ(node.state.clock, 5);
    EXPECT_EQ(node.elected(), id("z"));
    EXPECT_FALSE(node.state.campaign);
}

TEST(Election, a_higher_standing_opens_a_campaign_if_the_own_ballot_is_greater) {
    Node node("m", 1, forced_seniority);
    node.feed(PeerConnected{id("a")});
    node.standing(claim(of(5, 2, "z")));
    EXPECT_TRUE(node.state.campaign);
    EXPECT_EQ(node.elected(), id("m"));
    EXPECT_EQ(node.state.ballots.size(), 2);
}

TEST(Election, a_higher_standing_opens_a_campaign_if_another_master_lives) {
    Node node = follower();
    node.feed(PeerConnected{id("a")});
    node.standing(claim(of(9, 0, "y")));
    EXPECT_TRUE(node.state.campaign);
    EXPECT_EQ(node.elected(), id("z"));
}

TEST(Election, a_higher_standing_is_believed_once_the_other_master_is_silent) {
    Node node = follower();
    node.now += standing_lost_after;
    node.standing(claim(of(9, 3, "y")));
    EXPECT_EQ(node.elected(), id("y"));
}

TEST(Election, a_master_with_followers_does_not_believe_a_higher_standing_at_once) {
    Node node("m", 1);
    node.facts = {.session = model::Session{id("m"), 2, 1}, .has_followers = true};
    node.feed(PeerConnected{id("a")});
    node.standing(claim(of(9, 3, "y")));
    EXPECT_TRUE(node.state.campaign);
    EXPECT_EQ(node.elected(), id("m"));
}

TEST(Election, a_master_that_falls_silent_for_3_s_is_replaced) {
    Node node = follower();
    node.feed(PeerConnected{id("a")}).wait(200ms);
    node.ballot(of(6, 0, "a"));
    node.ballot(of(6, 3, "z"));
    node.wait(2999ms);
    EXPECT_EQ(node.state.clock, 6);
    node.wait(1ms);
    EXPECT_EQ(node.state.clock, 7);
    EXPECT_TRUE(node.state.campaign);
}

TEST(Election, only_a_newer_standing_is_a_sign_of_life) {
    Node node = follower();
    node.now += 2s;
    node.standing(claim(of(5, 3, "z"), 1)); // Passed on by someone: the same seq.
    EXPECT_EQ(node.state.standing_heard, start);
    node.standing(claim(of(5, 3, "z"), 2));
    EXPECT_EQ(node.state.standing_heard, node.now);
}

TEST(Election, a_lost_standing_is_not_passed_on) {
    Node node = follower();
    EXPECT_TRUE(standing_for_beat(node.state, node.facts, node.now));
    EXPECT_FALSE(standing_for_beat(node.state, node.facts, node.now + standing_lost_after));
}

TEST(Election, the_elected_announces_its_standing_each_second_and_on_change) {
    Node node;
    EXPECT_EQ(node.wait(999ms).put_out<Announce>().size(), 0);
    EXPECT_EQ(node.wait(1ms).put_out<Announce>().size(), 1);
    node.facts.session = model::Session{id("m"), 1, 7};
    ASSERT_EQ(node.wait(1ms).put_out<Announce>().size(), 1);
    EXPECT_EQ(node.put_out<Announce>()[0].standing->session, node.facts.session);
}

TEST(Election, the_seq_of_standings_rises) {
    Node node;
    auto const first = standing_for_beat(node.state, node.facts, node.now);
    auto const second = standing_for_beat(node.state, node.facts, node.now);
    EXPECT_LT(first->seq, second->seq);
}

TEST(Election, a_campaign_leaves_the_master_in_place) {
    Node node = follower();
    node.feed(PeerConnected{id("a")}).wait(200ms);
    EXPECT_TRUE(node.state.campaign);
    EXPECT_TRUE(follows_live_master(node.state, node.now));
}

// --- Limits (E13) ---

TEST(Election, a_clock_beyond_the_limit_is_refused) {
    Node node;
    auto before = node.state;
    node.ballot(of(clock_max + 1, 0, "liar"));
    node.standing(claim(of(UINT64_MAX, 0, "liar")));
    before.refused = 2;
    EXPECT_EQ(node.state, before);
}

TEST(Election, at_the_greatest_clock_campaigns_go_on) {
    Node node;
    node.ballot(of(clock_max, 0, "liar"));
    EXPECT_EQ(node.state.clock, clock_max);
    node.feed(PeerConnected{id("a")}).wait(campaign_time + 200ms);
    EXPECT_EQ(node.state.clock, clock_max);
    EXPECT_TRUE(node.state.elected);
    EXPECT_EQ(Node("m", UINT64_MAX).state.clock, clock_max);
}

TEST(Election, no_more_than_1024_ballots_are_kept) {
    Node node;
    node.feed(PeerConnected{id("absent")}).wait(200ms);
    for (std::size_t i = 0; i < ballots_max + 10; ++i) {
        node.ballot(of(2, 0, "liar-" + std::to_string(i)));
    }
    EXPECT_EQ(node.state.ballots.size(), ballots_max);
    EXPECT_EQ(node.state.refused, 11);
}

// --- Properties ---

Input random_input(Random& random) {
    std::array const names{"a", "b", "m", "x", "z"};
    auto const name = id(names[random.below(names.size())]);
    Ballot const ballot{
        .clock = random.below(12),
        .seniority = static_cast<std::int32_t>(random.below(4)),
        .node_id = name,
        .boot = 9
    };
    switch (random.below(5)) {
    case 0:
        return PeerConnected{name};
    case 1:
        return PeerDisconnected{name};
    case 2:
        return BallotReceived{name, ballot, random.chance(1, 2)};
    case 3:
        return StandingReceived{name, claim(ballot, random.below(20))};
    default:
        return Tick{};
    }
}

TEST(Election, whatever_comes_clock_and_elected_never_fall) {
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
        Random random(seed);
        Node node("m", random.below(5));
        for (int i = 0; i < 200; ++i) {
            auto const clock = node.state.clock;
            auto const elected = *node.state.elected;
            node.now += Duration(random.below(800'000'000));
            node.feed(random_input(random));
            ASSERT_GE(node.state.clock, clock) << "seed " << seed;
            ASSERT_GE(*node.state.elected, elected) << "seed " << seed;
            ASSERT_GT(deadline(node.state), node.now) << "seed " << seed;
            for (auto const& [name, ballot] : node.state.ballots) {
                ASSERT_EQ(ballot.clock, node.state.clock) << "seed " << seed;
            }
        }
    }
}

} // namespace
} // namespace exo::election
