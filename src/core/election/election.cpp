// SPDX-License-Identifier: Apache-2.0
#include "core/election/election.hpp"

#include "base/assert.hpp"
#include "base/overloaded.hpp"

#include <algorithm>
#include <ranges>

namespace exo::election {
namespace {

// One call of step(): the state it advances, what it was told, and what it has put out so far.
class Step {
public:
    Step(State& state, Facts const& facts, TimePoint now)
        : state_(state)
        , facts_(facts)
        , now_(now) {}

    void on_started(Started const& in);
    void on_peer_connected(PeerConnected const& in);
    void on_peer_disconnected(PeerDisconnected const& in);
    void on_ballot(BallotReceived const& in);
    void on_standing(StandingReceived const& in);
    void on_log_failed();

    // What time has brought: ends of gathering and campaigns, lost standings, standings due.
    void on_time();

    [[nodiscard]] Outputs take() { return std::move(outputs_); }

private:
    void enter(std::uint64_t clock);
    void open_campaign(Duration duration, bool first);
    void open_next_campaign();
    void end_gathering();
    void end_campaign_if_due();
    void keep(Ballot const& ballot);
    void elect(Ballot const& ballot);
    void elect_or_answer(Ballot const& ballot, model::NodeId const& from, bool informed);
    void take_higher_standing(Ballot const& ballot);
    void answer(model::NodeId const& to);
    void announce_standing_if_due();

    [[nodiscard]] bool has_room_for_answer(model::NodeId const& to);

    [[nodiscard]] bool all_voted() const;

    State& state_;
    Facts const& facts_;
    TimePoint now_;
    Outputs outputs_;
};

[[nodiscard]] bool standing_is_fresh(State const& state, TimePoint now) {
    return state.standing && now < state.standing_heard + standing_lost_after;
}

// --- Clocks and campaigns ---

void Step::enter(std::uint64_t clock) {
    EXO_ASSERT(clock > state_.clock);
    EXO_ASSERT(clock <= clock_max);
    state_.clock = clock;
    state_.own = {clock, state_.seniority, facts_.commands_seen, state_.self, state_.boot};
    state_.ballots = {{state_.self, state_.own}};
    state_.campaign.reset();
    outputs_.push_back(StoreClock{clock});
}

void Step::open_campaign(Duration duration, bool first) {
    state_.campaign = Campaign{now_ + duration, first};
    outputs_.push_back(Announce{state_.own, {}});
}

void Step::open_next_campaign() {
    if (state_.clock < clock_max) {
        enter(state_.clock + 1);
    }
    open_campaign(campaign_time, false);
}

void Step::end_gathering() {
    state_.gather_until.reset();
    if (state_.campaign) {
        // A clock more would restart everybody's campaign: one flapping link could so prevent an
        // election for as long as it flaps (E4).
        outputs_.push_back(Announce{state_.own, {}});
    } else {
        open_next_campaign();
    }
}

void Step::end_campaign_if_due() {
    if (!state_.campaign) {
        return;
    }
    bool const early = !state_.campaign->first && all_voted(); // E12
    if (!early && now_ < state_.campaign->deadline) {
        return;
    }
    bool const first = state_.campaign->first;
    state_.campaign.reset();
    auto const winner = std::ranges::max(state_.ballots | std::views::values);
    bool const won = winner.node_id == state_.self;
    if (won && !first && state_.seniority >= 0) {
        auto const voters = static_cast<std::int32_t>(state_.ballots.size());
        state_.seniority = std::max(state_.seniority, voters);
        state_.own.seniority = state_.seniority;
        state_.ballots[state_.self] = state_.own;
    }
    outputs_.push_back(Announce{state_.own, {}});
    elect(won ? state_.own : winner);
}

// All connected peers, and the master that is followed, who need not be one of them: without its
// ballot a newcomer, connected with one node so far, would win against a living master (E12).
bool Step::all_voted() const {
    bool const master_lives = follows_live_master(state_, now_) && !state_.master_left;
    if (master_lives && !state_.ballots.contains(state_.elected->node_id)) {
        return false;
    }
    return std::ranges::all_of(state_.peers, [this](auto const& peer) {
        return state_.ballots.contains(peer);
    });
}

void Step::keep(Ballot const& ballot) {
    EXO_ASSERT(ballot.clock == state_.clock);
    auto const known = state_.ballots.find(ballot.node_id);
    if (known != state_.ballots.end()) {
        known->second = std::max(known->second, ballot);
    } else if (state_.ballots.size() < ballots_max) {
        state_.ballots.emplace(ballot.node_id, ballot);
    } else {
        ++state_.refused;
    }
}

void Step::elect(Ballot const& ballot) {
    if (state_.elected && ballot <= *state_.elected) {
        return; // E8: it only rises.
    }
    state_.elected = ballot;
    state_.standing_heard = now_;
    state_.master_left = false;
    if (state_.standing && state_.standing->ballot.node_id != ballot.node_id) {
        state_.standing.reset();
    }
    outputs_.push_back(Elected{ballot});
}

// --- Inputs ---

void Step::on_started(Started const& in) {
    EXO_ASSERT(state_.clock == 0);
    enter(std::min(in.stored_clock, clock_max - 1) + 1);
    open_campaign(Duration{0}, true);
}

void Step::on_peer_connected(PeerConnected const& in) {
    state_.peers.insert(in.node_id);
    state_.gather_until = state_.gather_until.value_or(now_ + gather_time);
}

void Step::on_peer_disconnected(PeerDisconnected const& in) {
    state_.peers.erase(in.node_id);
    state_.master_left |= state_.elected->node_id == in.node_id;
    state_.gather_until = state_.gather_until.value_or(now_ + gather_time);
}

void Step::on_ballot(BallotReceived const& in) {
    auto const& ballot = in.ballot;
    if (ballot.node_id == state_.self) {
        return; // Passed back to us; a copied key is the replica's matter.
    }
    if (ballot.clock > clock_max) {
        ++state_.refused;
    } else if (ballot.clock > state_.clock) {
        enter(ballot.clock);
        keep(ballot);
        open_campaign(campaign_time, false);
    } else if (ballot.clock == state_.clock) {
        elect_or_answer(ballot, in.from, in.informed);
    } else if (!in.informed) {
        answer(in.from);
    }
}

void Step::elect_or_answer(Ballot const& ballot, model::NodeId const& from, bool informed) {
    if (state_.campaign) {
        keep(ballot);
    } else if (!state_.elected || ballot > *state_.elected) {
        elect(ballot);
    } else if (ballot < *state_.elected && !informed) {
        answer(from);
    }
}

void Step::on_standing(StandingReceived const& in) {
    auto const& ballot = in.standing.ballot;
    if (ballot.node_id == state_.self) {
        return;
    }
    if (ballot.clock > clock_max) {
        ++state_.refused;
        return;
    }
    if (ballot.clock > state_.clock) {
        take_higher_standing(ballot);
    } else if (ballot.clock == state_.clock) {
        elect_or_answer(ballot, in.from, false);
    } else {
        answer(in.from);
    }
    bool const of_elected = state_.elected && state_.elected->node_id == ballot.node_id;
    if (of_elected && (!state_.standing || newer(in.standing, *state_.standing))) {
        state_.standing = in.standing;
        state_.standing_heard = now_;
        state_.master_left = false;
    }
}

// A high clock alone is no merit: a lone node that restarted often has one. It is believed at once
// only by those who have nothing better (E7).
void Step::take_higher_standing(Ballot const& ballot) {
    bool const leads_others = elected_self(state_) && facts_.session && facts_.has_followers;
    bool const follows_other =
        follows_live_master(state_, now_) && state_.elected->node_id != ballot.node_id;
    enter(ballot.clock);
    keep(ballot);
    if (state_.own > ballot || leads_others || follows_other) {
        open_campaign(campaign_time, false);
    } else {
        elect(ballot);
    }
}

void Step::on_log_failed() {
    state_.seniority = -1;
    open_next_campaign();
}

// --- Answers and standings ---

bool Step::has_room_for_answer(model::NodeId const& to) {
    std::erase_if(state_.answered, [this](auto const& entry) {
        return entry.second + answer_interval <= now_;
    });
    return !state_.answered.contains(to) && state_.answered.size() < answered_max;
}

void Step::answer(model::NodeId const& to) {
    if (to == state_.self || !has_room_for_answer(to)) {
        return;
    }
    state_.answered.emplace(to, now_);
    auto const standing = state_.campaign ? std::nullopt : standing_for_beat(state_, facts_, now_);
    outputs_.push_back(Answer{to, standing ? standing->ballot : state_.own, standing});
}

void Step::announce_standing_if_due() {
    if (!elected_self(state_)) {
        state_.announced.reset();
        return;
    }
    auto const& last = state_.announced;
    bool const changed =
        !last || last->ballot != *state_.elected || last->session != facts_.session;
    if (!changed && now_ < state_.standing_due) {
        return;
    }
    state_.announced = standing_for_beat(state_, facts_, now_);
    state_.standing_due = now_ + standing_interval;
    outputs_.push_back(Announce{state_.announced->ballot, state_.announced});
}

void Step::on_time() {
    if (state_.gather_until && now_ >= *state_.gather_until) {
        end_gathering();
    }
    bool const follows = state_.elected && !elected_self(state_);
    if (follows && !state_.campaign && now_ >= state_.standing_heard + standing_lost_after) {
        open_next_campaign(); // E10
    }
    end_campaign_if_due();
    announce_standing_if_due();
}

} // namespace

Outputs step(State& state, Input const& input, Facts const& facts, TimePoint now) {
    Step step(state, facts, now);
    std::visit(
        Overloaded{
            [&](Started const& in) { step.on_started(in); },
            [&](PeerConnected const& in) { step.on_peer_connected(in); },
            [&](PeerDisconnected const& in) { step.on_peer_disconnected(in); },
            [&](BallotReceived const& in) { step.on_ballot(in); },
            [&](StandingReceived const& in) { step.on_standing(in); },
            [&](LogFailed) { step.on_log_failed(); },
            [&](Tick) {},
        },
        input
    );
    step.on_time();
    EXO_ASSERT(state.elected);
    EXO_ASSERT(state.own.clock == state.clock);
    return step.take();
}

TimePoint deadline(State const& state) {
    TimePoint next = TimePoint::max();
    if (state.gather_until) {
        next = std::min(next, *state.gather_until);
    }
    if (state.campaign) {
        next = std::min(next, state.campaign->deadline);
    }
    if (elected_self(state)) {
        next = std::min(next, state.standing_due);
    } else if (state.elected && !state.campaign) {
        next = std::min(next, state.standing_heard + standing_lost_after);
    }
    return next;
}

std::optional<Standing> standing_for_beat(State& state, Facts const& facts, TimePoint now) {
    if (elected_self(state)) {
        return Standing{*state.elected, ++state.seq, facts.session, facts.head};
    }
    return standing_is_fresh(state, now) ? state.standing : std::nullopt;
}

bool elected_self(State const& state) {
    return state.elected && state.elected->node_id == state.self;
}

bool follows_live_master(State const& state, TimePoint now) {
    return state.elected && !elected_self(state) && standing_is_fresh(state, now);
}

} // namespace exo::election
