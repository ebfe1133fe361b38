"""What machines have besides a network card, and what their network lacks: containers, VPNs, IPv6
alone, firewalls, interfaces that come later, more than one network. They join all the same."""
import shutil
import time

import lab as laboratories
import pytest
import support
import topology
from support import wait_for
from topology import (
    DOCTOR_S,
    TOGETHER_S,
    diagnosis,
    is_trouble,
    missing,
    neighbours,
    remote_ips,
    state_of,
    wait_together,
)

SOON_S = 10  # Nothing is in the way that would have to be waited for.


def needs_tun():
    reason = laboratories.why_no_tun()
    if reason:
        pytest.skip(reason)


def lan_only(nodes, prefix):
    """Every connection that any of these nodes has is with an address that begins so."""
    for node in nodes:
        for peer, ips in remote_ips(state_of(node), node.id).items():
            assert all(ip.startswith(prefix) for ip in ips), (peer, ips)
    return True


@pytest.mark.parametrize("first", ["burdened", "plain"])
def test_B073_B074_containers_and_a_dead_vpn_keep_no_machine_out(
    laboratory, start, record_property, first
):
    needs_tun()
    lan = laboratory.network()
    burdened = [laboratory.host(lan), laboratory.host(lan)]
    plain = [laboratory.host(lan)]
    for number, host in enumerate(burdened):
        host.has_containers()
        host.has_dead_vpn(f"100.101.102.{number + 1}")
    order = burdened + plain if first == "burdened" else plain + burdened
    nodes = [start(order[0])]
    assert nodes[0].id  # It runs before the others do: each is found, and finds.
    begun = time.monotonic()
    nodes += [start(host) for host in order[1:]]
    record_property("seconds", round(wait_together(nodes, since=begun), 2))
    lan_only(nodes, ("10.77.0.", "fe80:"))


def test_B073_more_bridges_than_anyone_looks_at_do_not_hide_the_network(
    laboratory, start, record_property
):
    """Dozens of container networks that are older than the network card."""
    hosts = [laboratory.host(), laboratory.host()]
    for host in hosts:
        for number in range(40):
            host.ip(
                f"link add br-{number} type bridge",
                f"addr add 172.{20 + number // 8}.{number % 8 * 16}.1/20 dev br-{number}",
                f"link set br-{number} up",
            )
    lan = laboratory.network()
    for host in hosts:
        lan.plug(host)
    begun = time.monotonic()
    nodes = [start(host) for host in hosts]
    record_property("seconds", round(wait_together(nodes, since=begun), 2))


def test_B074_a_machine_in_a_container_is_a_member_like_all(laboratory, start, record_property):
    """The container reaches the network by its host's NAT, and nobody reaches it from there: it is
    met by its host, and meets the others by what its host knows of them (B084)."""
    lan = laboratory.network()
    host, other = laboratory.host(lan), laboratory.host(lan)
    inside = host.has_containers()
    begun = time.monotonic()
    nodes = [start(one) for one in (host, inside, other)]
    record_property("seconds", round(wait_together(nodes, since=begun), 2))
    name = nodes[1].id[-6:]

    def is_named():
        found = topology.fetch(nodes[2], "/network/diagnosis")["findings"]
        nat = [finding for finding in found if finding["code"] == "behind_nat"]
        return any(name in finding["message"] and finding["remedy"] for finding in nat)

    wait_for("that the container is behind NAT is named", is_named, DOCTOR_S)


def test_B074_the_local_network_is_preferred_to_an_overlay_that_works(laboratory, start):
    """Wherever both answer, connections are those of the local network."""
    lan = laboratory.network(ip4="192.168.40.{}/24")
    overlay = laboratory.network("overlay", ip4="100.70.1.{}/10")
    hosts = [laboratory.host() for _ in range(3)]
    for host in hosts:
        overlay.plug(host, "tailscale0")
        host.has_no_ip6("tailscale0")
    for host in hosts:
        lan.plug(host)
    nodes = [start(host) for host in hosts]
    wait_together(nodes)
    wait_for(
        "the local network carries every connection",
        lambda: all(
            ip.startswith(("192.168.40.", "fe80:"))
            for node in nodes
            for ips in remote_ips(state_of(node), node.id).values()
            for ip in ips
        ),
        SOON_S,
    )
    overlay_is_enough(lan, hosts, nodes)


def overlay_is_enough(lan, hosts, nodes):
    """What is not preferred is used where nothing else is left."""
    lan.cut(hosts[2])
    wait_for(
        "it is reached by the overlay",
        lambda: any(
            ip.startswith("100.") for ips in remote_ips(state_of(nodes[0]), nodes[0].id).values()
            for ip in ips
        ),
        TOGETHER_S,
    )
    wait_together(nodes)


@pytest.mark.parametrize("ula", [False, True], ids=["link-local", "ULA"])
def test_machines_that_have_only_ip6_join(laboratory, start, record_property, ula):
    lan = laboratory.network(ip4=None, ip6="fd12:3456:789a::{}/64" if ula else None)
    hosts = [laboratory.host(lan) for _ in range(3)]
    for host in hosts:
        host.link_local()
    begun = time.monotonic()
    nodes = [start(host) for host in hosts]
    record_property("seconds", round(wait_together(nodes, since=begun), 2))
    lan_only(nodes, ("fd12:", "fe80:"))


def test_machines_whose_ip4_addresses_do_not_fit_meet_by_ip6(laboratory, start, record_property):
    """One switch, two subnets, no route between them: what is heard of the other cannot be
    dialled, but its link-local address can."""
    lan = laboratory.network(ip4=None)
    hosts = [laboratory.host(lan) for _ in range(2)]
    hosts[0].ip("addr add 192.168.7.2/24 dev eth0", "route add default via 192.168.7.1")
    hosts[1].ip("addr add 10.9.8.7/24 dev eth0", "route add default via 10.9.8.1")
    begun = time.monotonic()
    nodes = [start(host) for host in hosts]
    record_property("seconds", round(wait_together(nodes, since=begun), 2))


def test_a_network_that_comes_after_the_program_is_used(laboratory, start, record_property):
    """Started with the loopback interface alone: a laptop before its Wi-Fi, a container before its
    network."""
    lan = laboratory.network()
    early, other = laboratory.host(), laboratory.host(lan)
    nodes = [start(early), start(other)]
    for node in nodes:
        topology.wait_alone(node)
    plugged = time.monotonic()
    lan.plug(early)
    record_property("seconds", round(wait_together(nodes, since=plugged), 2))


def test_a_machine_that_gets_another_address_is_back_soon(laboratory, start, record_property):
    lan = laboratory.network()
    hosts = [laboratory.host(lan) for _ in range(3)]
    for host in hosts:
        host.has_no_ip6()  # By which they would stay together.
    nodes = [start(host) for host in hosts]
    wait_together(nodes)
    hosts[1].ip("addr del 10.77.0.2/24 dev eth0", "addr add 10.77.0.99/24 dev eth0")
    changed = time.monotonic()

    def has_moved():
        ips = remote_ips(state_of(nodes[0]), nodes[0].id).get(nodes[1].id, set())
        return ips == {"10.77.0.99"} and missing(nodes) is None

    wait_for("it is met at its new address", has_moved, TOGETHER_S)
    record_property("seconds", round(time.monotonic() - changed, 2))


@pytest.mark.parametrize("how", ["drop", "reject with tcp reset"])
def test_B084_who_cannot_be_dialled_joins_by_dialling(laboratory, start, record_property, how):
    lan = laboratory.network()
    hosts = [laboratory.host(lan) for _ in range(3)]
    hosts[2].refuses_connections(how)
    begun = time.monotonic()
    nodes = [start(host) for host in hosts]
    record_property("seconds", round(wait_together(nodes, since=begun), 2))


def test_B079_one_that_is_not_heard_is_met_by_those_it_hears(laboratory, start, record_property):
    lan = laboratory.network()
    hosts = [laboratory.host(lan) for _ in range(3)]
    lan.drops_multicast_from(hosts[0])
    begun = time.monotonic()
    nodes = [start(host) for host in hosts]
    record_property("seconds", round(wait_together(nodes, since=begun), 2))


def test_B079_two_that_cannot_dial_each_other_are_named(laboratory, start):
    """Both are behind a firewall. One cluster through the third; whoever is asked says who does not
    reach whom."""
    lan = laboratory.network()
    hosts = [laboratory.host(lan) for _ in range(3)]
    for host in hosts[1:]:
        host.refuses_connections()
    nodes = [start(host) for host in hosts]
    wait_in_a_row(nodes[1], nodes[0], nodes[2])
    for node in nodes:
        found = wait_for(
            "the missing link is named",
            lambda n=node: diagnosis(n).get("no_link") or diagnosis(n).get("one_way_link"),
            DOCTOR_S,
        )
        assert is_trouble(found) and found["remedy"]
        assert all(one.id[-6:] in found["message"] for one in nodes[1:]), found


def test_of_three_machines_in_a_row_the_middle_one_keeps_all_together(laboratory, start):
    """A and C have no network in common, B is on both. One cluster with one master, which all list;
    A and C have no connection and say so."""
    left = laboratory.network("left")
    right = laboratory.network("right", ip4="10.78.0.{}/24")
    hosts = [laboratory.host(left), laboratory.host(left, right), laboratory.host(right)]
    wait_in_a_row(*(start(host) for host in hosts))


def wait_in_a_row(*nodes):
    """Waits until all are one cluster and each has a connection with those beside it only."""
    ids = [node.id for node in nodes]
    links = {ids[0]: {ids[1]}, ids[1]: {ids[0], ids[2]}, ids[2]: {ids[1]}}

    def in_a_row(state):
        seen = {one: neighbours(state, one) for one in ids}
        return set(state["members"]) == set(ids) and seen == links

    def one_cluster():
        states = [state_of(node) for node in nodes]
        masters = {state["masterNodeId"] for state in states}
        return len(masters) == 1 and masters <= set(ids) and all(map(in_a_row, states))

    wait_for("one cluster in a row", one_cluster, TOGETHER_S)


def test_a_model_on_two_machines_with_containers_answers(laboratory, nodes):
    """The ranks, too, have to find the network that both are on (B087)."""
    needs_tun()
    lan = laboratory.network()
    hosts = [laboratory.host(lan) for _ in range(2)]
    for number, host in enumerate(hosts):
        host.has_containers()
        host.has_dead_vpn(f"100.101.102.{number + 1}")
    pair = [nodes.start("-v", host=host) for host in hosts]
    wait_together(pair)
    placed = pair[0].place("Pipeline", 2)
    pair[0].wait_ready(placed)
    assert support.nodes_of(pair[0].state(), placed) == {node.id for node in pair}
    assert "Paris" in pair[1].ask()


def test_B078_a_copied_key_does_not_keep_its_network_busy(laboratory, start, tmp_path):
    """A third machine keeps one of the two; the other is heard by nobody, and comes back seldom."""
    lan = laboratory.network()
    third, first = start(laboratory.host(lan)), start(laboratory.host(lan))
    assert third.id
    wait_together([third, first])
    copy = tmp_path / "copied"
    shutil.copytree(first.home, copy)
    second = start(laboratory.host(lan), home=copy)
    assert second.id == first.id
    wait_for(
        "both know", lambda: all("has this node's key" in n.log() for n in (first, second)), SOON_S
    )
    time.sleep(20)
    lost = [line for n in (first, second) for line in n.log().splitlines() if "is gone" in line]
    assert len(lost) <= 2, lost
