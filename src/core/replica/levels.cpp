// SPDX-License-Identifier: Apache-2.0
//
// What the local worker runs, compared with State and submitted until State says the same (S10).
#include "core/cluster/levels.hpp"

#include "core/replica/parts.hpp"

namespace exo::replica {

void on_levels(Parts& parts, LevelsChanged const& in) {
    auto& worker = parts.worker;
    worker.runners = in.runners;
    worker.levels = {};
    for (auto const& runner : in.runners) {
        worker.levels.runners.insert_or_assign(
            runner.runner_id,
            cluster::RunnerLevel{model::generation(runner.instance), runner.status}
        );
    }
    for (auto const& task : in.tasks) {
        worker.levels.tasks.insert_or_assign(model::task_id(task), task);
    }
    worker.dirty = true;
}

void submit_levels(Parts& parts) {
    auto& worker = parts.worker;
    bool const repeats = !worker.submitted.empty() && parts.now >= worker.submit_at;
    if (!settled(parts) || (!worker.dirty && !repeats)) {
        return;
    }
    worker.dirty = false;
    auto missing = cluster::missing_levels(parts.log.state(), parts.config.self, worker.levels);
    if (missing.empty()) {
        worker.submitted.clear();
        return;
    }
    if (!repeats && missing == worker.submitted) {
        return;
    }
    worker.submitted = missing;
    worker.submit_at = parts.now + submission_interval;
    auto const session = *parts.log.session();
    LevelSubmission submission{session, parts.joining.report_id, std::move(missing)};
    if (parts.leadership) {
        on_submission(parts, parts.config.self, submission);
    } else {
        send_or_publish(parts, session.master_node_id, std::move(submission));
    }
}

void on_submission(Parts& parts, model::NodeId const& from, LevelSubmission const& submission) {
    if (!parts.leadership) {
        drop(parts);
        return;
    }
    auto const accepted = cluster::accept_submission(
        parts.log.state(), from, submission.session, submission.report_id, submission.events
    );
    if (!accepted) {
        drop(parts); // Its beats tell us, and it, whether it must join anew.
        return;
    }
    append(parts, *accepted);
}

} // namespace exo::replica
