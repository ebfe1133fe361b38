// SPDX-License-Identifier: Apache-2.0
#include "sim/scenarios.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace exo::sim {
namespace {

// Options that the seed decides: 3 to 7 nodes, gossip that loses 0 to 30 % a hop.
WorldOptions options_of(Run const& run) {
    Random random(run.seed * 2654435761 + 1);
    WorldOptions options{.seed = run.seed, .verbose = run.verbose};
    options.node_count = run.node_count != 0 ? run.node_count : 3 + random.below(5);
    options.network.gossip_loss_percent = random.below(31);
    options.network.delay_max = Duration(1'000'000 + random.below(60'000'000));
    return options;
}

WorldOptions two_nodes(Run const& run) {
    auto options = options_of(run);
    options.node_count = 2;
    return options;
}

Duration random_time(World& world, Duration from, Duration to) {
    return from + Duration(world.random().below(static_cast<std::uint64_t>((to - from).count())));
}

Node random_up(World& world) {
    auto const up = world.up();
    return up[world.random().below(up.size())];
}

void start_all(World& world, Duration within) {
    for (Node node = 0; node < world.size(); ++node) {
        world.at(random_time(world, 0s, within), [&world, node] { world.start(node); });
    }
    world.run_for(within);
}

// All started, one master, and everybody settled in its session.
Node form(World& world) {
    start_all(world, 1s);
    world.wait_for_master(world.up(), 20s);
    world.run_for(8s);
    auto const master = world.master_of(world.up());
    world.require(master.has_value(), "no cluster formed");
    return *master;
}

void use(World& world, std::size_t commands, Duration within) {
    for (std::size_t i = 0; i < commands; ++i) {
        world.at(random_time(world, 0s, within), [&world] {
            if (world.up().empty()) {
                return;
            }
            if (world.random().chance(2, 3)) {
                world.place(
                    random_up(world), 1 + static_cast<std::uint32_t>(world.random().below(2))
                );
            } else {
                world.remove_any(random_up(world));
            }
        });
    }
}

std::vector<Node> without(World const& world, Node left_out) {
    auto nodes = world.up();
    std::erase(nodes, left_out);
    return nodes;
}

// --- Scenarios ---

std::uint64_t cluster_forms(Run const& run) {
    World world(options_of(run));
    start_all(world, 5s);
    use(world, 4, 10s);
    world.check_quiet();
    return world.trace_hash();
}

std::uint64_t partitions_heal(Run const& run) {
    World world(options_of(run));
    form(world);
    use(world, 8, 40s);
    for (int phase = 0; phase < 3; ++phase) {
        auto const groups = world.random().next();
        world.shape([&](Node a, Node b) { return ((groups >> a) & 1) == ((groups >> b) & 1); });
        world.run_for(random_time(world, 1s, 15s));
        world.heal();
        world.run_for(random_time(world, 0s, 5s));
    }
    world.check_quiet();
    return world.trace_hash();
}

// Links come and go one by one and one way, nodes die and return.
std::uint64_t everything_fails(Run const& run) {
    World world(options_of(run));
    start_all(world, 5s);
    use(world, 8, 40s);
    for (int fault = 0; fault < 20; ++fault) {
        auto const a = static_cast<Node>(world.random().below(world.size()));
        auto const b = static_cast<Node>(world.random().below(world.size()));
        bool const up = world.random().chance(1, 2);
        if (world.random().chance(1, 5) && world.is_up(a)) {
            world.restart(a, random_time(world, 0s, 8s));
        } else if (a != b && world.random().chance(1, 3)) {
            world.set_one_way(a, b, up);
        } else if (a != b) {
            world.set_link(a, b, up);
        }
        world.run_for(random_time(world, 0s, 4s));
    }
    world.heal();
    world.run_for(8s); // The last to be killed has returned.
    world.check_quiet();
    return world.trace_hash();
}

std::uint64_t two_nodes_part_and_meet(Run const& run) {
    World world(two_nodes(run));
    form(world);
    use(world, 5, 30s);
    for (int phase = 0; phase < 3; ++phase) {
        world.set_link(0, 1, false);
        world.run_for(random_time(world, 500ms, 10s));
        world.set_link(0, 1, true);
        world.run_for(random_time(world, 0s, 6s));
    }
    world.check_quiet();
    return world.trace_hash();
}

// P5: 5 s for a process's death. With the early end of campaigns (E12) less than 3 s do mostly, but
// a ballot may be lost. The returning node does not depose the standing master.
std::uint64_t master_is_killed_and_returns(Run const& run) {
    World world(options_of(run));
    auto const first = form(world);
    world.place(random_up(world), 1);
    world.run_for(3s);
    auto const instances = world.at_node(first).state().instances.size();
    world.kill(first);
    world.wait_for_master(world.up(), 5s);
    world.run_for(random_time(world, 3s, 12s));
    auto const second = world.master_of(world.up());
    world.require(second.has_value(), "the survivors have lost their master again");
    auto const session = world.at_node(*second).session();
    world.require(
        !world.at_node(*second).state().wishes.empty() == (instances > 0),
        "the wishes died with the master"
    );
    world.start(first);
    world.check_quiet();
    world.require(
        world.at_node(*second).session() == session, "a returning node ended a living session"
    );
    return world.trace_hash();
}

// P5: 8 s for a silent one.
std::uint64_t master_falls_silent(Run const& run) {
    World world(options_of(run));
    auto const first = form(world);
    world.isolate(first);
    world.run_for(3s); // Beats are missed only now.
    auto const survivors = without(world, first);
    auto const end = world.now() + 5s;
    while (world.master_of(survivors).value_or(first) == first) {
        world.require(world.now() < end, "P5: no new master 8 s after the old one fell silent");
        world.run_for(50ms);
    }
    world.run_for(random_time(world, 0s, 10s));
    world.heal();
    world.check_quiet();
    return world.trace_hash();
}

// E2, E3: whoever stays goes on leading when the other returns, whatever their ids and clocks.
std::uint64_t two_nodes_restart_in_turn(Run const& run) {
    World world(two_nodes(run));
    form(world);
    Node leaves = world.random().below(2);
    for (int turn = 0; turn < 4; ++turn) {
        Node const stays = 1 - leaves;
        world.kill(leaves);
        world.wait_for_master({stays}, 5s);
        world.run_for(random_time(world, 100ms, 4s));
        auto const session = world.at_node(stays).session();
        // Lone restarts raise a clock: no merit.
        for (std::uint64_t lone = world.random().below(3); lone > 0; --lone) {
            world.set_link(0, 1, false);
            world.start(leaves);
            world.run_for(random_time(world, 100ms, 3s));
            world.kill(leaves);
        }
        world.set_link(0, 1, true);
        world.start(leaves);
        world.run_for(random_time(world, 6s, 10s));
        world.require(world.master_of({0, 1}) == stays, "E3: the survivor does not lead");
        world.require(
            world.at_node(stays).session() == session, "E2/E3: the survivor's session was replaced"
        );
        leaves = world.random().chance(1, 2) ? stays : leaves;
    }
    world.check_quiet();
    return world.trace_hash();
}

// E4: with the master dead and one link flapping, the others still agree. If a change of
// connections entered a new clock in mid-campaign, an election would have to wait for a pause of
// the flapping.
std::uint64_t link_flaps_at_the_masters_death(Run const& run) {
    auto options = options_of(run);
    options.node_count = std::max<std::size_t>(options.node_count, 5);
    options.network.dial_max = 300ms;
    World world(options);
    auto const master = form(world);
    auto const others = without(world, master);
    for (Duration time = 0s; time < 30s; time += random_time(world, 300ms, 900ms)) {
        world.at(time, [&world, a = others[0], b = others[1]] { world.drop_connection(a, b); });
    }
    world.run_for(random_time(world, 0s, 2s));
    world.kill(master);
    world.wait_for_master(others, 5s);
    world.run_for(30s);
    world.start(master);
    world.check_quiet();
    return world.trace_hash();
}

bool in_shape(std::uint64_t shape, std::size_t count, Node a, Node b) {
    auto const low = std::min(a, b);
    auto const high = std::max(a, b);
    switch (shape) {
    case 0: // Line.
        return high == low + 1;
    case 1: // Star.
        return low == 0;
    default: // Ring.
        return high == low + 1 || (low == 0 && high == count - 1);
    }
}

// E7: not everybody is connected with everybody. At rest no clock moves for a minute.
std::uint64_t lines_stars_and_rings(Run const& run) {
    auto options = options_of(run);
    options.network.gossip_loss_percent =
        std::min<std::uint64_t>(options.network.gossip_loss_percent, 10);
    World world(options);
    auto const shape = run.seed % 3;
    auto const apply_shape = [&] {
        world.shape([&](Node a, Node b) { return in_shape(shape, world.size(), a, b); });
    };
    apply_shape();
    start_all(world, 3s);
    use(world, 3, 20s);
    world.run_for(10s);
    world.restart(random_up(world), random_time(world, 0s, 8s));
    world.run_for(10s);
    world.check_quiet(60s);
    return world.trace_hash();
}

// S1: who is forced, and comes late and empty, takes the lead and the state with it.
std::uint64_t forced_master_joins(Run const& run) {
    World world(options_of(run));
    Node const forced = world.random().below(world.size());
    for (Node node = 0; node < world.size(); ++node) {
        if (node != forced) {
            world.start(node);
        }
    }
    world.wait_for_master(world.up(), 20s);
    world.run_for(8s);
    world.place(random_up(world), 1);
    world.run_for(4s);
    auto const before = world.at_node(random_up(world)).state().wishes;
    world.require(before.size() == 1, "the wish was not placed");
    world.start(forced, true);
    world.check_quiet();
    world.require(world.master_of(world.up()) == forced, "the forced master does not lead");
    world.require(world.at_node(forced).state().wishes.size() == 1, "S1: the state was lost");
    return world.trace_hash();
}

constexpr std::array all{
    Scenario{"cluster_forms", "nodes start, gossip is lost, users place and delete", cluster_forms},
    Scenario{"partitions_heal", "groups part and meet while users act", partitions_heal},
    Scenario{"everything_fails", "links, one way too, and processes come and go", everything_fails},
    Scenario{"two_nodes_part_and_meet", "two nodes, one link", two_nodes_part_and_meet},
    Scenario{
        "master_is_killed_and_returns",
        "a new master within 5 s, which keeps the lead",
        master_is_killed_and_returns
    },
    Scenario{"master_falls_silent", "a new master within 8 s", master_falls_silent},
    Scenario{
        "two_nodes_restart_in_turn", "whoever stays goes on leading", two_nodes_restart_in_turn
    },
    Scenario{
        "link_flaps_at_the_masters_death",
        "the others agree all the same",
        link_flaps_at_the_masters_death
    },
    Scenario{
        "lines_stars_and_rings", "nodes that hear the master through others", lines_stars_and_rings
    },
    Scenario{"forced_master_joins", "an empty newcomer takes lead and state", forced_master_joins},
};

} // namespace

std::span<Scenario const> scenarios() {
    return all;
}

} // namespace exo::sim
