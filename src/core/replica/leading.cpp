// SPDX-License-Identifier: Apache-2.0
//
// From elected to master (S1-S4), and a master's part in joins and duties.
#include "base/assert.hpp"
#include "core/cluster/lineage.hpp"
#include "core/replica/parts.hpp"

#include <algorithm>

namespace exo::replica {
namespace {

// S2: a restarted process that meets its cluster must not leave a fork behind.
[[nodiscard]] bool held_by_boot(Parts const& parts) {
    return !parts.had_session && (parts.election.campaign || parts.now < parts.started + boot_hold);
}

void begin_recovery(Parts& parts) {
    parts.recovery = Recovery{.until = parts.now + recovery_max};
    for (auto const& [node_id, peer] : parts.peers) {
        parts.recovery->pending.insert(node_id);
        send(parts, node_id, TailRequest{parts.log.position()});
    }
}

// The position that an answer leads to.
[[nodiscard]] std::optional<model::Position> end_of(TailAnswer const& answer) {
    if (answer.snapshot) {
        return answer.snapshot->position;
    }
    return answer.records.empty() ? std::nullopt : std::optional(answer.records.back().position);
}

[[nodiscard]] bool further(TailAnswer const& a, std::optional<TailAnswer> const& b) {
    auto const key = [](TailAnswer const& answer) {
        auto const end = end_of(answer);
        return end ? std::pair(end->session.election_clock, end->index)
                   : std::pair(std::uint64_t{0}, std::int64_t{-1});
    };
    return end_of(a) && (!b || key(a) > key(*b));
}

void take_tail(Parts& parts, TailAnswer answer) {
    if (answer.after != parts.log.position()) {
        return; // We have moved on since we asked.
    }
    if (answer.snapshot && !install_snapshot(parts, std::move(*answer.snapshot))) {
        drop(parts);
    }
    take_records(parts, answer.records);
}

// The master joins its own session, as everybody does.
void join_own_session(Parts& parts) {
    auto& leadership = *parts.leadership;
    append(
        parts,
        cluster::open_report(leadership.reports, parts.log.state(), new_report(parts), parts.now)
    );
    append(parts, cluster::decide_reports(leadership.reports, parts.log.state(), parts.now));
}

void start_session(Parts& parts) {
    parts.recovery.reset();
    parts.following = {};
    parts.joining.request.reset();
    parts.had_session = true;
    model::Session const session{parts.config.self, parts.election.clock, parts.random.next()};
    parts.leadership = Leadership{.session = session, .started = parts.now, .duties_at = parts.now};
    append(parts, {model::SessionStarted{session, parts.log.position().index}});
    join_own_session(parts);
    hurry_commands(parts);
}

} // namespace

void lead_if_elected(Parts& parts) {
    if (!election::elected_self(parts.election) || parts.leadership || held_by_boot(parts)) {
        return; // S3: elected again, it keeps its session.
    }
    if (!parts.recovery) {
        begin_recovery(parts);
    }
    if (!parts.recovery->pending.empty() && parts.now < parts.recovery->until) {
        return;
    }
    if (auto best = std::move(parts.recovery->best)) {
        take_tail(parts, std::move(*best));
    }
    start_session(parts);
}

std::optional<TimePoint> leading_deadline(Parts const& parts) {
    if (!election::elected_self(parts.election)) {
        return std::nullopt;
    }
    if (parts.leadership) {
        return parts.leadership->duties_at;
    }
    if (parts.recovery) {
        return parts.recovery->until;
    }
    // An open campaign ends at the election's own deadline.
    return parts.election.campaign ? std::nullopt : std::optional(parts.started + boot_hold);
}

void append(Parts& parts, std::vector<model::Event> const& events) {
    EXO_ASSERT(parts.leadership);
    for (auto const& event : events) {
        auto record = parts.log.next_record(parts.leadership->session, event);
        auto const applied = apply_record(parts, record);
        EXO_ASSERT(applied.has_value());
        // One that is too large for a topic is missed there, and fetched (S6).
        publish(parts, global_events_topic, {std::nullopt, std::move(record)});
    }
}

void do_duties(Parts& parts) {
    if (!parts.leadership) {
        return;
    }
    auto& leadership = *parts.leadership;
    if (parts.now < leadership.duties_at) {
        return;
    }
    std::set<model::NodeId> const vouched; // Ranks say so in their beats, with adoption's issue.
    for (std::size_t round = 0; round < duty_rounds_max; ++round) {
        auto events = cluster::decide_reports(leadership.reports, parts.log.state(), parts.now);
        if (events.empty()) {
            events = cluster::duties(
                leadership.duties,
                {.state = parts.log.state(),
                 .observations = parts.observations,
                 .last_heard = parts.heard,
                 .vouched = vouched,
                 .session_started = leadership.started,
                 .now = parts.now}
            );
        }
        if (events.empty()) {
            break;
        }
        append(parts, events);
    }
    leadership.duties_at = parts.now + cluster::duties_interval; // Sooner when State changes.
}

void on_tail_request(Parts& parts, model::NodeId const& from, TailRequest const& request) {
    TailAnswer answer{.after = request.after};
    if (cluster::in_lineage(parts.log.state(), request.after)) {
        auto range = parts.log.after(request.after);
        answer.records = std::move(range.records);
        answer.snapshot = std::move(range.snapshot);
    }
    send(parts, from, std::move(answer));
}

void on_tail_answer(Parts& parts, model::NodeId const& from, TailAnswer const& answer) {
    if (!parts.recovery || parts.recovery->pending.erase(from) == 0) {
        drop(parts);
        return;
    }
    if (further(answer, parts.recovery->best)) {
        parts.recovery->best = answer;
    }
}

// Forks are not merged yet (S8.2): a joiner whose position is not in our lineage is accepted like
// the others, and takes our snapshot when it asks for the range after its position.
void on_join_request(Parts& parts, model::NodeId const& from, JoinRequest const& request) {
    if (!parts.leadership || request.session != parts.leadership->session ||
        request.report.node_id != from || request.report.report_id.boot != request.boot) {
        drop(parts);
        return;
    }
    auto& leadership = *parts.leadership;
    append(
        parts,
        cluster::open_report(leadership.reports, parts.log.state(), request.report, parts.now)
    );
    append(parts, cluster::decide_reports(leadership.reports, parts.log.state(), parts.now));
    send_or_publish(parts, from, JoinAccepted{request.session, request.report.report_id});
}

void ask_to_rejoin(Parts& parts, model::NodeId const& from, Beat const& beat) {
    if (!parts.leadership || beat.session != parts.leadership->session) {
        return;
    }
    auto const& members = parts.log.state().members;
    auto const member = members.find(from);
    bool const known = member != members.end() && member->second.boot == beat.boot &&
                       member->second.report_id == beat.report_id;
    auto& sent = parts.leadership->rejoin_sent;
    if (known) {
        sent.erase(from);
        return;
    }
    auto const last = sent.find(from);
    if (last != sent.end() ? parts.now < last->second + rejoin_interval
                           : sent.size() >= nodes_max) {
        return;
    }
    sent[from] = parts.now;
    send_or_publish(parts, from, Rejoin{*beat.session, beat.report_id});
}

} // namespace exo::replica
