// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/duties.hpp"

#include "core/cluster/ids.hpp"
#include "core/cluster/lineage.hpp"
#include "core/cluster/serve_wish.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace exo::cluster {
namespace {

using namespace model;

// Between attempts to place a wish (M4); the last one goes on.
constexpr std::array<Duration, 5> attempt_pauses{5s, 10s, 20s, 40s, 60s};
// Free memory is compared in steps of 256 MiB: a machine at rest stays within one.
constexpr int memory_step_bits = 28;

Duration silence(DutiesInput const& in, NodeId const& node) {
    auto const heard = in.last_heard.find(node);
    return in.now - (heard == in.last_heard.end() ? in.session_started : heard->second);
}

// A silent node that a rank vouches for, and not for too long already.
bool is_vouched(Duties const& memory, DutiesInput const& in, NodeId const& node) {
    auto const since = memory.vouched_since.find(node);
    return since != memory.vouched_since.end() && in.now - since->second <= vouching_max;
}

void note_vouching(Duties& memory, DutiesInput const& in) {
    for (auto const& node : in.vouched) {
        if (silence(in, node) > doubtful_silence) {
            memory.vouched_since.try_emplace(node, in.now);
        }
    }
    std::erase_if(memory.vouched_since, [&](auto const& entry) {
        return !in.vouched.contains(entry.first) || silence(in, entry.first) <= doubtful_silence;
    });
}

void forget_what_is_gone(Duties& memory, State const& state) {
    std::erase_if(memory.instances, [&](auto const& entry) {
        return !state.instances.contains(entry.first);
    });
    std::erase_if(memory.wishes, [&](auto const& entry) {
        return !state.wishes.contains(entry.first);
    });
}

// Nodes are still joining, or what they run is not decided yet (A3).
bool is_unsettled(DutiesInput const& in) {
    bool const undecided = std::ranges::any_of(in.state.members, [](auto const& entry) {
        return entry.second.report_id != ReportId{} && !entry.second.settled;
    });
    return undecided || in.now - in.session_started < settle_time;
}

// ---- M1

std::vector<Event> bury_silent_nodes(Duties& memory, DutiesInput const& in) {
    std::vector<Event> events;
    for (auto const& [node, member] : in.state.members) {
        if (silence(in, node) > dead_silence && !is_vouched(memory, in, node)) {
            events.push_back(NodeTimedOut{node});
        }
    }
    return events;
}

// ---- M2

std::vector<Event> delete_unwanted(Duties&, DutiesInput const& in) {
    std::vector<Event> events;
    for (auto const& [id, instance] : in.state.instances) {
        if (!in.state.wishes.contains(wish_id(instance))) {
            events.push_back(InstanceDeleted{.instance_id = id});
        }
    }
    return events;
}

// The node that is gone for good, of those of the instance; none while there is doubt.
std::optional<NodeId>
lost_node(Duties const& memory, DutiesInput const& in, Instance const& instance) {
    std::optional<NodeId> lost;
    for (auto const& node : nodes_by_rank(instance)) {
        bool const is_gone = !in.state.members.contains(node);
        if (is_gone ? is_vouched(memory, in, node) : silence(in, node) > doubtful_silence) {
            return std::nullopt;
        }
        if (is_gone && !lost) {
            lost = node;
        }
    }
    return lost;
}

std::vector<Event> delete_broken(Duties& memory, DutiesInput const& in) {
    std::vector<Event> events;
    for (auto const& [id, instance] : in.state.instances) {
        if (auto const node = lost_node(memory, in, instance)) {
            events.push_back(InstanceDeleted{
                .instance_id = id,
                .reason = DeletionReason::node_lost,
                .message = "node " + node->value() + " does not answer"
            });
        }
    }
    return events;
}

// ---- M3

// What the failed ranks said; empty if none failed.
std::string failure_of(State const& state, Instance const& instance) {
    std::string text;
    for (auto const& node : nodes_by_rank(instance)) {
        auto const status = state.runners.find(*runner_of(instance, node));
        if (status == state.runners.end()) {
            continue;
        }
        if (auto const* const failed = std::get_if<RunnerFailed>(&status->second)) {
            text += (text.empty() ? "" : "; ") + node.value() + ": " + failed->error_message;
        }
    }
    return text;
}

bool all_serve(State const& state, Instance const& instance) {
    auto const& shards = shard_assignments(instance).runner_to_shard;
    return std::ranges::all_of(shards, [&](auto const& entry) {
        auto const status = state.runners.find(entry.first);
        return status != state.runners.end() && serves(status->second);
    });
}

void note_health(Duties::Patience& patience, bool serves_now, TimePoint now) {
    patience.restart_at.reset();
    if (!serves_now) {
        patience.ready_since.reset();
        return;
    }
    patience.ready_since = patience.ready_since.value_or(now);
    if (now - *patience.ready_since >= stable_time) {
        patience.restarts = 0;
    }
}

std::optional<Event> after_failure(
    Duties::Patience& patience, Instance const& instance, std::string const& why, TimePoint now
) {
    patience.ready_since.reset();
    if (patience.restarts >= restarts_max) {
        return InstanceDeleted{
            .instance_id = instance_id(instance),
            .reason = DeletionReason::failed,
            .message = "failed after " + std::to_string(restarts_max) + " restarts. " + why
        };
    }
    if (!patience.restart_at) {
        patience.restart_at = now + Duration(1s) * (1 << patience.restarts);
    }
    if (now < *patience.restart_at) {
        return std::nullopt;
    }
    patience.restart_at.reset();
    ++patience.restarts;
    return InstanceRestarted{
        .instance_id = instance_id(instance), .generation = generation(instance) + 1
    };
}

std::vector<Event> restart_failed(Duties& memory, DutiesInput const& in) {
    std::vector<Event> events;
    for (auto const& [id, instance] : in.state.instances) {
        Duties::Patience& patience = memory.instances[id];
        std::string const why = failure_of(in.state, instance);
        if (why.empty()) {
            note_health(patience, all_serve(in.state, instance), in.now);
        } else if (auto event = after_failure(patience, instance, why, in.now)) {
            events.push_back(std::move(*event));
        }
    }
    return events;
}

// ---- M4

std::size_t instances_of(State const& state, WishId const& wish) {
    return static_cast<std::size_t>(std::ranges::count_if(state.instances, [&](auto const& entry) {
        return wish_id(entry.second) == wish;
    }));
}

// What a placement of `model` depends on, coarsely.
std::map<NodeId, std::uint64_t>
seen_now(DutiesInput const& in, std::set<NodeId> const& heard, ModelId const& model) {
    std::map<NodeId, std::uint64_t> seen;
    for (auto const& node : heard) {
        auto const info = in.observations.find(node);
        if (info == in.observations.end() || !in.state.members.contains(node)) {
            continue;
        }
        auto const& models = info->second.models;
        bool const has_model = std::ranges::count(models, model, &ModelCard::model_id) > 0;
        std::uint64_t const memory = info->second.memory.ram_available.in_bytes >> memory_step_bits;
        seen[node] = memory * 2 + (has_model ? 1 : 0);
    }
    return seen;
}

// A new id in each fork: two placements of one instance could not both be adopted.
InstanceId next_instance_id(State const& state, WishId const& wish) {
    Position const at = position(state);
    return InstanceId(derived_uuid(
        "replacement",
        wish.value() + " " + std::to_string(at.session.nonce) + " " + std::to_string(at.index)
    ));
}

bool same_nodes(
    std::map<NodeId, std::uint64_t> const& a, std::map<NodeId, std::uint64_t> const& b
) {
    return std::ranges::equal(
        a, b, {}, [](auto const& e) { return e.first; }, [](auto const& e) { return e.first; }
    );
}

std::optional<Event> try_wish(
    Duties::Attempts& attempts,
    DutiesInput const& in,
    std::set<NodeId> const& heard,
    Wish const& wish
) {
    auto seen = seen_now(in, heard, wish.model_card.model_id);
    if (!same_nodes(seen, attempts.seen)) {
        attempts = {};
    }
    bool const is_due = attempts.count == 0 || in.now >= attempts.next;
    if (!is_due && seen == attempts.seen) {
        return std::nullopt;
    }
    attempts.seen = std::move(seen);
    auto const instance = serve_wish(
        in.state, in.observations, heard, wish, next_instance_id(in.state, wish.wish_id)
    );
    if (instance) {
        return InstanceCreated{.instance = *instance};
    }
    if (!is_due) {
        return std::nullopt; // Memory moves all the time; its numbers go to the log now and then.
    }
    std::size_t const step = std::min<std::size_t>(attempts.count, attempt_pauses.size() - 1);
    attempts.next = in.now + attempt_pauses[step];
    ++attempts.count;
    if (instance.error().text() == wish.refusal) {
        return std::nullopt;
    }
    return WishRefused{.wish_id = wish.wish_id, .reason = instance.error().text()};
}

// One placement at a time: the next one must see the memory that this one takes.
std::vector<Event> place_wishes(Duties& memory, DutiesInput const& in) {
    std::set<NodeId> const heard = heard_within(in.last_heard, placement_silence_max, in.now);
    for (auto const& [id, wish] : in.state.wishes) {
        if (wish.failed || instances_of(in.state, id) >= wish.count) {
            memory.wishes.erase(id);
            continue;
        }
        if (auto event = try_wish(memory.wishes[id], in, heard, wish)) {
            return {std::move(*event)};
        }
    }
    return {};
}

} // namespace

std::vector<Event> duties(Duties& memory, DutiesInput const& input) {
    forget_what_is_gone(memory, input.state);
    note_vouching(memory, input);
    for (auto const rule : {bury_silent_nodes, delete_unwanted}) {
        if (auto events = rule(memory, input); !events.empty()) {
            return events;
        }
    }
    if (is_unsettled(input)) {
        return {};
    }
    for (auto const rule : {delete_broken, restart_failed, place_wishes}) {
        if (auto events = rule(memory, input); !events.empty()) {
            return events;
        }
    }
    return {};
}

} // namespace exo::cluster
