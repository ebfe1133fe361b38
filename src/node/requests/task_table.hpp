// SPDX-License-Identifier: Apache-2.0
//
// The requests that this node owns because rank 0 of their instance runs here (specs/cluster.md T2,
// T3). It keeps each answer's events so that a client that lost its connection can go on where it
// was, and says what the cluster should know of each task (levels). No I/O; driven by
// requests/generate_service and the worker on the network thread.
//
// Invariants: a terminal status is final; the last event of an ended task is terminal; a task is
// started at most once.
#pragma once

#include "base/result.hpp"
#include "base/time.hpp"
#include "model/generation.hpp"
#include "model/state.hpp"
#include "node/messages.hpp"

#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace exo::node {

class TaskTable {
public:
    struct Hooks {
        // Hands the request to the runner. Errors: not_found (no such instance here), unavailable.
        std::function<Result<void>(model::InstanceId const&, model::GenerationRequest const&)>
            start;
        std::function<void(model::InstanceId const&, model::TaskId const&)> cancel;
        // Some task has new events.
        std::function<void()> events_added;
        // Some task began or ended: levels() is another.
        std::function<void()> levels_changed;
    };

    // How long a client may be away before its task is cancelled, and how long an answer is kept
    // after its end (specs/cluster.md section 0, T3).
    static constexpr Duration resume_limit = 4500ms;
    static constexpr Duration kept_after_end = 5s;
    // An ended task whose status nobody has taken over by then is forgotten all the same.
    static constexpr Duration level_limit = 60s;
    static constexpr std::size_t tasks_max = 1024;

    explicit TaskTable(Hooks hooks)
        : hooks_(std::move(hooks)) {}

    // Attaches a client: starts the task, or goes on with one that is known. The caller then reads
    // events() from `first_event()` on. Errors: those of Hooks::start; not_found when a resumed
    // task is gone; limit.
    Result<void> open(OpenTask const& open);

    // The index in events() of the first event that a client which has all deltas below
    // `next_number` still needs.
    [[nodiscard]] std::size_t first_event(model::TaskId const& id, std::uint64_t next_number) const;

    // All events so far, or null if the task is unknown. Valid until the next call of a method.
    [[nodiscard]] std::vector<model::GenerationEvent> const* events(model::TaskId const& id) const;

    // The client does not want the answer any more.
    void cancel(model::TaskId const& id, TimePoint now);
    // The client's connection is gone; it may come back.
    void client_lost(model::TaskId const& id, TimePoint now);

    void on_event(model::TaskId const& id, model::GenerationEvent event, TimePoint now);
    // The runner is gone: its open tasks fail with `message`.
    void instance_ended(model::InstanceId const& id, std::string const& message, TimePoint now);

    // Cancels what nobody has come back for, forgets what is old.
    void tick(model::State const& state, TimePoint now);

    // The status of each task, for the master.
    [[nodiscard]] std::map<model::TaskId, model::Task> levels() const;

private:
    struct Entry {
        model::TextGeneration task;
        std::vector<model::GenerationEvent> events;
        std::uint32_t clients = 0;
        std::optional<TimePoint> lost_at;
        std::optional<TimePoint> ended_at;
    };

    void end(Entry& entry, model::TaskStatus status, std::string message, TimePoint now);

    Hooks hooks_;
    std::map<model::TaskId, Entry> tasks_;
};

} // namespace exo::node
