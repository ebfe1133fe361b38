// SPDX-License-Identifier: Apache-2.0
//
// Joining a session (S8): our report to its master, repeated unchanged until we are settled in it.
//
// Forks are not merged yet: a joiner whose position is not in the master's lineage gives up its own
// log for the master's snapshot (following.cpp). Its report is judged all the same.
#include "core/replica/parts.hpp"

#include <algorithm>

namespace exo::replica {

model::Report new_report(Parts& parts) {
    auto& joining = parts.joining;
    joining.report_id = {parts.config.boot, ++joining.reports_count};
    model::Report report{
        .node_id = parts.config.self,
        .report_id = joining.report_id,
        .runners = parts.worker.runners,
    };
    parts.worker.submitted.clear();
    parts.worker.dirty = true;
    return report;
}

void begin_join(Parts& parts, model::Session const& session) {
    auto const& lineage = parts.log.state().lineage;
    auto const skipped = lineage.size() - std::min(lineage.size(), join_lineage_max);
    parts.joining.request = JoinRequest{
        .session = session,
        .boot = parts.config.boot,
        .lineage = {lineage.begin() + static_cast<std::ptrdiff_t>(skipped), lineage.end()},
        .position = parts.log.position(),
        .report = new_report(parts),
    };
    parts.joining.accepted = false;
    parts.joining.repeat_at = parts.now;
}

void repeat_join(Parts& parts) {
    auto& joining = parts.joining;
    if (!joining.request) {
        return;
    }
    if (settled(parts)) {
        joining.request.reset();
        return;
    }
    if (parts.now < joining.repeat_at) {
        return;
    }
    joining.repeat_at = parts.now + join_interval;
    auto const master = joining.request->session.master_node_id;
    send_or_publish(parts, master, *joining.request);
}

void on_join_accepted(Parts& parts, JoinAccepted const& accepted) {
    auto& joining = parts.joining;
    if (accepted.session != parts.following.target || accepted.report_id != joining.report_id) {
        drop(parts);
        return;
    }
    if (!joining.accepted) {
        joining.accepted = true;
        parts.following.gap_at = parts.now;
    }
}

void on_rejoin(Parts& parts, model::NodeId const& from, Rejoin const& rejoin) {
    if (rejoin.session != parts.following.target || rejoin.session.master_node_id != from ||
        rejoin.report_id != parts.joining.report_id) {
        drop(parts);
        return;
    }
    begin_join(parts, rejoin.session);
}

bool settled(Parts const& parts) {
    bool const in_session =
        parts.leadership || (in_target_session(parts) && parts.joining.accepted);
    auto const& members = parts.log.state().members;
    auto const member = members.find(parts.config.self);
    return in_session && member != members.end() && member->second.settled &&
           member->second.boot == parts.config.boot &&
           member->second.report_id == parts.joining.report_id;
}

} // namespace exo::replica
