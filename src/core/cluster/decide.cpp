// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/decide.hpp"

#include "base/overloaded.hpp"
#include "core/cluster/ids.hpp"
#include "core/cluster/serve_wish.hpp"

#include <algorithm>

namespace exo::cluster {
namespace {

using namespace model;

// Placements that people have asked for, in the whole cluster.
constexpr std::size_t wishes_max = 1000;

struct Circumstances {
    State const& state;
    Observations const& observations;
    CommandId const& command_id;
    std::set<NodeId> const& heard;
};

Decision refused(Errc code, std::string text) {
    return {.events = {}, .answer = Error(code, std::move(text))};
}

// Accepted: the outcome is recorded last, so that what it speaks of has happened.
Decision accepted(Circumstances const& at, std::vector<Event> events, InstanceId const& instance) {
    events.push_back(CommandRecorded{.command_id = at.command_id, .instance_id = instance});
    return {
        .events = std::move(events),
        .answer = CommandOutcome{.command_id = at.command_id, .instance_id = instance}
    };
}

InstanceId const* instance_serving(State const& state, ModelId const& model) {
    for (auto const& [id, instance] : state.instances) {
        if (model_card(instance).model_id == model) {
            return &id;
        }
    }
    return nullptr;
}

Wish const* wish_for(State const& state, ModelId const& model) {
    auto const automatic = state.wishes.find(WishId(model.value()));
    if (automatic != state.wishes.end()) {
        return &automatic->second;
    }
    auto const found = std::ranges::find_if(state.wishes, [&](auto const& entry) {
        return entry.second.model_card.model_id == model;
    });
    return found == state.wishes.end() ? nullptr : &found->second;
}

Decision serve(Circumstances const& at, Wish const& wish, bool is_new) {
    InstanceId const id(derived_uuid("instance", at.command_id.value()));
    if (std::ranges::count(at.state.deleted_instances, id) > 0 || at.state.instances.contains(id)) {
        return refused(
            Errc::conflict,
            "command " + at.command_id.value() + " was executed before; use a new id"
        );
    }
    auto const instance = serve_wish(at.state, at.observations, at.heard, wish, id);
    if (!instance) {
        return {.events = {}, .answer = instance.error()};
    }
    std::vector<Event> events;
    if (is_new) {
        events.push_back(WishCreated{wish});
    }
    events.push_back(InstanceCreated{.instance = *instance});
    return accepted(at, std::move(events), id);
}

Decision on(Circumstances const& at, PlaceInstance const& command) {
    ModelId const& model = command.model_card.model_id;
    if (model.value().empty() || command.wish_id.value().empty()) {
        return refused(Errc::invalid_argument, "a placement needs a model and a wish id");
    }
    if (auto const fault = find_fault(command.settings)) {
        return refused(Errc::invalid_argument, "settings." + fault->field + ": " + fault->text);
    }
    if (command.automatic) {
        if (InstanceId const* const instance = instance_serving(at.state, model)) {
            return accepted(at, {}, *instance);
        }
        if (Wish const* const wish = wish_for(at.state, model)) {
            return serve(at, *wish, false);
        }
    }
    if (at.state.wishes.contains(command.wish_id)) {
        return refused(Errc::conflict, "wish " + command.wish_id.value() + " exists already");
    }
    if (at.state.wishes.size() >= wishes_max) {
        return refused(
            Errc::conflict,
            std::to_string(wishes_max) + " placements are asked for already; delete some instances"
        );
    }
    Wish const wish{
        .wish_id = command.wish_id,
        .model_card = command.model_card,
        .sharding = command.sharding,
        .instance_meta = command.instance_meta,
        .min_nodes = std::max(command.min_nodes, 1u),
        .settings = command.settings,
        .automatic = command.automatic
    };
    return serve(at, wish, true);
}

// The wish that the instance serves, or served when it was lost: its id is all that a user has.
std::optional<WishId> wish_of(State const& state, InstanceId const& id) {
    auto const instance = state.instances.find(id);
    if (instance != state.instances.end()) {
        return wish_id(instance->second);
    }
    for (auto const& [wish_id, wish] : state.wishes) {
        if (wish.last_instance_id == id) {
            return wish_id;
        }
    }
    return std::nullopt;
}

Decision on(Circumstances const& at, DeleteInstance const& command) {
    auto const wish = wish_of(at.state, command.instance_id);
    if (!wish) {
        return refused(Errc::not_found, "there is no instance " + command.instance_id.value());
    }
    // The wish first: without it, an instance left over is deleted too (M2); the other way round, a
    // master that dies between the two would leave a wish to be placed again.
    std::vector<Event> events{WishDeleted{*wish}};
    for (auto const& [id, instance] : at.state.instances) {
        if (wish_id(instance) == *wish) {
            events.push_back(
                InstanceDeleted{.instance_id = id, .reason = DeletionReason::user, .message = {}}
            );
        }
    }
    return accepted(at, std::move(events), command.instance_id);
}

} // namespace

Decision decide(
    State const& state,
    Observations const& observations,
    Command const& command,
    CommandId const& command_id,
    std::set<NodeId> const& heard
) {
    if (command_id.value().empty()) {
        return refused(Errc::invalid_argument, "a command needs an id");
    }
    auto const known = std::ranges::find(state.outcomes, command_id, &CommandOutcome::command_id);
    if (known != state.outcomes.end()) {
        return {.events = {}, .answer = *known};
    }
    Circumstances const at{
        .state = state, .observations = observations, .command_id = command_id, .heard = heard
    };
    return std::visit([&](auto const& kind) { return on(at, kind); }, command);
}

} // namespace exo::cluster
