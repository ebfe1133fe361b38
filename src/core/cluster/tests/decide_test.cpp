// SPDX-License-Identifier: Apache-2.0
#include "core/cluster/apply.hpp"
#include "core/cluster/decide.hpp"
#include "core/cluster/ids.hpp"
#include "core/placement/tests/examples.hpp"

#include <gtest/gtest.h>

namespace exo::cluster {
namespace {

using namespace model;
using examples::gib;
using examples::mib;
using examples::node;

PlaceInstance place(std::string const& wish, std::uint32_t min_nodes = 1) {
    return {.wish_id = WishId(wish), .model_card = examples::card(), .min_nodes = min_nodes};
}

PlaceInstance place_automatically() {
    PlaceInstance command = place("m");
    command.automatic = true;
    return command;
}

// A master: decides, and applies what it decided.
struct Master {
    examples::Cluster cluster;

    Decision decide(Command const& command, std::string const& id) {
        Decision decision = cluster::decide(
            cluster.state, cluster.observations, command, CommandId(id), cluster.heard
        );
        for (auto const& event : decision.events) {
            apply(cluster.state, cluster.state.last_event_applied_idx + 1, event);
        }
        return decision;
    }

    InstanceId accepted(Command const& command, std::string const& id) {
        Decision const decision = decide(command, id);
        EXPECT_TRUE(decision.answer) << decision.answer.error().text();
        return decision.answer ? decision.answer->instance_id.value() : InstanceId();
    }

    Errc refused(Command const& command, std::string const& id) {
        Decision const decision = decide(command, id);
        EXPECT_FALSE(decision.answer);
        EXPECT_TRUE(decision.events.empty()) << "a refusal is not logged";
        return decision.answer ? Errc::internal : decision.answer.error().code();
    }
};

Master master() {
    Master master;
    master.cluster.add(node("a", 32 * gib)).add(node("b", 32 * gib));
    return master;
}

TEST(Decide, a_placement_makes_a_wish_an_instance_and_a_record_in_this_order) {
    Master at = master();
    Decision const decision = at.decide(place("c1"), "c1");
    ASSERT_TRUE(decision.answer);
    ASSERT_EQ(decision.events.size(), 3);
    EXPECT_EQ(std::get<WishCreated>(decision.events[0]).wish.wish_id, WishId("c1"));
    Instance const& instance = std::get<InstanceCreated>(decision.events[1]).instance;
    EXPECT_EQ(instance_id(instance), decision.answer->instance_id);
    EXPECT_EQ(wish_id(instance), WishId("c1"));
    EXPECT_EQ(
        std::get<CommandRecorded>(decision.events[2]),
        (CommandRecorded{CommandId("c1"), decision.answer->instance_id})
    );
}

// C2
TEST(Decide, a_known_command_gets_its_recorded_outcome_and_is_not_executed_again) {
    Master at = master();
    InstanceId const first = at.accepted(place("c1"), "c1");
    Decision const again = at.decide(place("c1"), "c1");
    ASSERT_TRUE(again.answer);
    EXPECT_EQ(again.answer->instance_id, first);
    EXPECT_TRUE(again.events.empty());
    EXPECT_EQ(at.cluster.state.instances.size(), 1);
}

TEST(Decide, a_command_makes_the_same_ids_in_every_lineage) {
    EXPECT_EQ(master().accepted(place("c1"), "c1"), master().accepted(place("c1"), "c1"));
    EXPECT_NE(master().accepted(place("c1"), "c1"), master().accepted(place("c2"), "c2"));
}

TEST(Decide, a_placement_that_does_not_fit_is_refused_with_the_numbers) {
    Master at;
    at.cluster.add(node("a", 300 * mib));
    Decision const decision = at.decide(place("c1"), "c1");
    ASSERT_FALSE(decision.answer);
    EXPECT_EQ(decision.answer.error().code(), Errc::conflict);
    EXPECT_NE(decision.answer.error().text().find("300.0 MiB"), std::string::npos);
    EXPECT_TRUE(decision.events.empty());
    EXPECT_TRUE(at.cluster.state.wishes.empty());
}

TEST(Decide, settings_travel_into_the_wish_and_the_instance) {
    Master at = master();
    PlaceInstance command = place("c1");
    command.settings = {.context_length = 1024, .cache_type = CacheType::q8_0, .parallel = 3};
    InstanceId const id = at.accepted(command, "c1");
    EXPECT_EQ(at.cluster.state.wishes.at(WishId("c1")).settings, command.settings);
    EXPECT_EQ(settings(at.cluster.state.instances.at(id)), command.settings);
}

TEST(Decide, settings_that_no_instance_can_have_are_refused) {
    Master at = master();
    PlaceInstance command = place("c1");
    command.settings.parallel = parallel_most + 1;
    EXPECT_EQ(at.refused(command, "c1"), Errc::invalid_argument);
}

TEST(Decide, two_placements_are_two_instances) {
    Master at = master();
    EXPECT_NE(at.accepted(place("c1"), "c1"), at.accepted(place("c2"), "c2"));
    EXPECT_EQ(at.cluster.state.wishes.size(), 2);
}

// C4
TEST(Decide, an_automatic_wish_is_made_once) {
    Master at = master();
    InstanceId const first = at.accepted(place_automatically(), "c1");
    EXPECT_EQ(at.accepted(place_automatically(), "c2"), first);
    EXPECT_EQ(at.cluster.state.instances.size(), 1);
    EXPECT_EQ(at.cluster.state.wishes.at(WishId("m")).automatic, true);
}

TEST(Decide, an_automatic_wish_takes_what_a_user_has_placed) {
    Master at = master();
    InstanceId const users = at.accepted(place("c1", 2), "c1");
    EXPECT_EQ(at.accepted(place_automatically(), "c2"), users);
    EXPECT_EQ(at.cluster.state.wishes.size(), 1);
}

TEST(Decide, an_automatic_wish_without_instance_is_served_again) {
    Master at = master();
    InstanceId const first = at.accepted(place_automatically(), "c1");
    apply(
        at.cluster.state,
        at.cluster.state.last_event_applied_idx + 1,
        InstanceDeleted{
            .instance_id = first, .reason = DeletionReason::failed, .message = "crashed"
        }
    );
    InstanceId const second = at.accepted(place_automatically(), "c2");
    EXPECT_NE(second, first);
    auto const& instance = std::get<MlxRingInstance>(at.cluster.state.instances.at(second));
    EXPECT_EQ(instance.replaces, first);
    EXPECT_FALSE(at.cluster.state.wishes.at(WishId("m")).failed); // A user asked.
}

TEST(Decide, an_automatic_wish_serves_a_users_wish_that_has_no_instance_as_it_was_asked) {
    Master at = master();
    InstanceId const first = at.accepted(place("c1", 2), "c1");
    apply(
        at.cluster.state,
        at.cluster.state.last_event_applied_idx + 1,
        InstanceDeleted{.instance_id = first, .reason = DeletionReason::node_lost}
    );
    InstanceId const second = at.accepted(place_automatically(), "c2");
    EXPECT_EQ(nodes_by_rank(at.cluster.state.instances.at(second)).size(), 2);
    EXPECT_EQ(at.cluster.state.wishes.size(), 1);
}

TEST(Decide, a_wish_that_lost_a_node_is_served_by_fewer_rather_than_by_none) {
    Master at = master();
    InstanceId const first = at.accepted(place("c1", 2), "c1");
    apply(
        at.cluster.state,
        at.cluster.state.last_event_applied_idx + 1,
        InstanceDeleted{.instance_id = first, .reason = DeletionReason::node_lost}
    );
    at.cluster.heard = {NodeId("a")};
    InstanceId const second = at.accepted(place_automatically(), "c2");
    EXPECT_EQ(
        nodes_by_rank(at.cluster.state.instances.at(second)), std::vector<NodeId>{NodeId("a")}
    );
}

TEST(Decide, a_wish_that_was_never_placed_waits_for_the_nodes_that_were_asked_for) {
    Master at = master();
    at.cluster.heard = {NodeId("a")};
    EXPECT_EQ(at.refused(place("c1", 2), "c1"), Errc::conflict);
}

TEST(Decide, a_deletion_takes_the_wish_first_and_then_the_instance) {
    Master at = master();
    InstanceId const instance = at.accepted(place("c1"), "c1");
    Decision const decision = at.decide(DeleteInstance{instance}, "c2");
    ASSERT_TRUE(decision.answer);
    ASSERT_EQ(decision.events.size(), 3);
    EXPECT_EQ(std::get<WishDeleted>(decision.events[0]).wish_id, WishId("c1"));
    EXPECT_EQ(std::get<InstanceDeleted>(decision.events[1]).instance_id, instance);
    EXPECT_EQ(std::get<CommandRecorded>(decision.events[2]).instance_id, instance);
    EXPECT_TRUE(at.cluster.state.instances.empty());
    EXPECT_TRUE(at.cluster.state.wishes.empty());
}

TEST(Decide, a_wish_can_be_deleted_by_the_instance_that_it_lost) {
    Master at = master();
    InstanceId const instance = at.accepted(place("c1"), "c1");
    apply(
        at.cluster.state,
        at.cluster.state.last_event_applied_idx + 1,
        InstanceDeleted{.instance_id = instance, .reason = DeletionReason::node_lost}
    );
    EXPECT_EQ(at.accepted(DeleteInstance{instance}, "c2"), instance);
    EXPECT_TRUE(at.cluster.state.wishes.empty());
}

TEST(Decide, an_unknown_instance_is_not_found) {
    EXPECT_EQ(master().refused(DeleteInstance{InstanceId("x")}, "c"), Errc::not_found);
}

TEST(Decide, a_command_from_another_lineage_whose_instance_was_deleted_is_refused) {
    Master at = master();
    InstanceId const instance = at.accepted(place("c1"), "c1");
    (void)at.accepted(DeleteInstance{instance}, "c2");
    at.cluster.state.outcomes.clear(); // So long ago that nobody remembers.
    EXPECT_EQ(at.refused(place("c1"), "c1"), Errc::conflict);
}

TEST(Decide, commands_without_ids_or_model_are_wrong) {
    Master at = master();
    EXPECT_EQ(at.refused(place("c1"), ""), Errc::invalid_argument);
    EXPECT_EQ(at.refused(place(""), "c1"), Errc::invalid_argument);
    PlaceInstance nameless = place("c1");
    nameless.model_card.model_id = {};
    EXPECT_EQ(at.refused(nameless, "c1"), Errc::invalid_argument);
}

TEST(Decide, a_wish_id_is_used_once) {
    Master at = master();
    (void)at.accepted(place("w"), "c1");
    EXPECT_EQ(at.refused(place("w"), "c2"), Errc::conflict);
}

TEST(Decide, a_placement_for_no_nodes_is_one_for_one) {
    Master at = master();
    (void)at.accepted(place("c1", 0), "c1");
    EXPECT_EQ(at.cluster.state.wishes.at(WishId("c1")).min_nodes, 1);
}

// printf 'instance\0c1' | sha256sum, with the version and variant bits of RFC 9562.
TEST(DerivedUuid, is_a_uuid_made_of_a_hash) {
    EXPECT_EQ(derived_uuid("instance", "c1").size(), 36);
    EXPECT_EQ(derived_uuid("instance", "c1")[14], '8');
    EXPECT_EQ(derived_uuid("instance", "c1"), "7fdc6a78-3b99-8ecd-8faf-6a4ab87201a9");
    EXPECT_NE(derived_uuid("instance", "c1"), derived_uuid("instancec", "1"));
}

} // namespace
} // namespace exo::cluster
