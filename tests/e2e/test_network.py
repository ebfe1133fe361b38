"""Eight machines on one switch, without a word of configuration: they find each other, lose each
other and find each other again. In the order of this file the tests share the machines; each begins
with all of them together."""
import os
import signal
import time

import lab
import pytest
import topology
from support import wait_for
from topology import TOGETHER_S, hold_together, master_of, missing, state_of, wait_together

# `make test-full`: more machines, a network that falls apart again and again, and for long.
FULL = bool(os.environ.get("EXO_NETLAB_FULL"))
HOSTS_COUNT = 16 if FULL else 8
ROUNDS = 10 if FULL else 1
APART_S = 100  # An address that did not answer for so long is tried less often.
NOTICED_S = 15  # A machine that says nothing any more, until nobody lists it.


class Machines:
    """Hosts on one network, and the node of each."""

    def __init__(self, laboratory, nodes):
        self.lan, self.starter = laboratory.network(), nodes
        self.hosts = [laboratory.host(self.lan) for _ in range(HOSTS_COUNT)]
        self.nodes = []

    def start(self, index):
        homes = {node.host: node.home for node in self.nodes if node}
        host = self.hosts[index]
        return self.starter.start(*lab.NODE_FLAGS, host=host, home=homes.get(host), models=False)

    def start_all(self):
        begun = time.monotonic()
        self.nodes = [self.start(index) for index in range(HOSTS_COUNT)]
        return begun

    def mend(self):
        self.lan.join()
        for index, node in enumerate(self.nodes):
            self.lan.heal(self.hosts[index])
            if node.process.poll() is not None:
                self.nodes[index] = self.start(index)

    def halves(self):
        return self.nodes[: HOSTS_COUNT // 2], self.nodes[HOSTS_COUNT // 2 :]


@pytest.fixture(scope="module")
def started(shared_laboratory, shared_nodes):
    machines = Machines(shared_laboratory, shared_nodes)
    machines.begun = machines.start_all()
    return machines


@pytest.fixture
def machines(started):
    """All of them together, whatever the test before has left."""
    started.mend()
    took = wait_together(started.nodes, since=started.begun)
    started.begun = None
    started.took = getattr(started, "took", took)
    return started


def test_hosts_without_configuration_are_one_full_topology(machines, record_property):
    record_property("seconds", round(machines.took, 2))
    assert machines.took < TOGETHER_S
    assert missing(machines.nodes) is None


@pytest.mark.parametrize("turn", range(ROUNDS), ids=lambda turn: f"round{turn + 1}")
def test_a_network_that_falls_apart_has_two_masters_and_one_when_it_is_joined(
    machines, record_property, turn
):
    first, second = machines.halves()
    machines.lan.split(*machines.hosts[HOSTS_COUNT // 2 :])
    cut = time.monotonic()
    for half in (first, second):
        wait_together(half, since=cut, ghosts=True)
    assert master_of(first) in first and master_of(second) in second
    record_property("apart_seconds", round(time.monotonic() - cut, 2))

    machines.lan.join()
    record_property("joined_seconds", round(wait_together(machines.nodes), 2))


@pytest.mark.skipif(not FULL, reason="takes two minutes: EXO_NETLAB_FULL=1")
def test_a_network_that_was_apart_for_long_is_joined_as_soon(machines, record_property):
    first, second = machines.halves()
    machines.lan.split(*machines.hosts[HOSTS_COUNT // 2 :])
    cut = time.monotonic()
    for half in (first, second):
        wait_together(half, since=cut, ghosts=True)
    hold_together(first, APART_S, ghosts=True)
    machines.lan.join()
    record_property("joined_seconds", round(wait_together(machines.nodes), 2))


def test_a_cable_is_pulled_and_put_back(machines, record_property):
    lost, host = machines.nodes[3], machines.hosts[3]
    rest = [node for node in machines.nodes if node is not lost]
    machines.lan.cut(host)
    cut = time.monotonic()
    wait_together(rest, since=cut, ghosts=True)
    topology.wait_alone(lost)
    record_property("noticed_seconds", round(time.monotonic() - cut, 2))
    machines.lan.heal(host)
    record_property("joined_seconds", round(wait_together(machines.nodes), 2))


def test_B092_a_cable_that_is_out_for_a_moment_costs_nothing(machines):
    """B092: a second without packets is no reason to elect. (TCP is back after twice the time.)"""
    before = events_of(machines.nodes)
    machines.lan.cut(machines.hosts[5])
    out = time.monotonic()
    wait_for("a second", lambda: time.monotonic() - out > 1, 2)
    machines.lan.heal(machines.hosts[5])
    hold_together(machines.nodes, 5)
    assert events_of(machines.nodes) == before


@pytest.mark.parametrize("kind", ["master", "other"])
def test_a_node_that_is_killed_is_gone_and_comes_back_as_itself(machines, record_property, kind):
    master = master_of(machines.nodes)
    killed = next(n for n in machines.nodes if (n is master) == (kind == "master"))
    index, name = machines.nodes.index(killed), killed.id
    rest = [node for node in machines.nodes if node is not killed]
    killed.process.send_signal(signal.SIGKILL)
    record_property("noticed_seconds", round(wait_together(rest, NOTICED_S, ghosts=True), 2))

    begun = time.monotonic()
    machines.nodes[index] = machines.start(index)
    assert machines.nodes[index].id == name
    record_property("joined_seconds", round(wait_together(machines.nodes, since=begun), 2))


def test_a_node_that_restarts_at_once_leaves_no_ghost(machines, record_property):
    """B102, B103: back before anybody has noticed, with the same identity."""
    machines.nodes[2].process.send_signal(signal.SIGKILL)
    machines.nodes[2].process.wait()  # Else its ports are taken.
    begun = time.monotonic()
    machines.nodes[2] = machines.start(2)
    record_property("joined_seconds", round(wait_together(machines.nodes, since=begun), 2))
    hold_together(machines.nodes, 3)


def test_all_nodes_restart_at_once(machines, record_property):
    ids = [node.id for node in machines.nodes]
    for node in machines.nodes:
        node.process.send_signal(signal.SIGKILL)
    for node in machines.nodes:
        node.process.wait()
    begun = machines.start_all()
    record_property("joined_seconds", round(wait_together(machines.nodes, since=begun), 2))
    assert [node.id for node in machines.nodes] == ids


def events_of(nodes):
    """The place in the log that each has reached: who comes, goes or leads moves it."""
    return [state_of(node)["lastEventAppliedIdx"] for node in nodes]
