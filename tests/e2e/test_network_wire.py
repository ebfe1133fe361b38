"""What goes over the wire, and what nodes make of a bad one: what they say by multicast, a link
that is slow and loses packets, halves of a network that grew up apart."""
import re
import time

import lab as laboratories
import pytest
from sniffer import Sniffer
from support import wait_for
from topology import TOGETHER_S, hold_together, state_of, wait_together
from wires import Wire

FORGOTTEN_S = 30
P2P, EXO = "_p2p._udp.local", "_exo._tcp.local"


@pytest.fixture
def overheard(laboratory, start):
    """Two machines, of which one has containers and a VPN, and all that they say by mDNS."""
    lan = laboratory.network()
    hosts = [laboratory.host(lan) for _ in range(2)]
    hosts[0].has_containers()
    if laboratories.why_no_tun() is None:
        hosts[0].has_dead_vpn()
    hosts[1].counts_dials_of_itself()
    sniffer = Sniffer(lan)
    nodes = [start(host) for host in hosts]
    wait_together(nodes)
    yield sniffer, hosts, nodes
    sniffer.stop()


def of_service(records, service, kinds):
    return [(s, r) for s, r in records if r.name.endswith(service) and r.kind in kinds]


def has_spoken(sniffer, service):
    """Both machines have told all of a service."""
    told = of_service(sniffer.records(), service, ("PTR", "TXT"))
    return {(source, r.kind) for source, r in told} >= {
        (f"10.77.0.{number}", kind) for number in (1, 2) for kind in ("PTR", "TXT")
    }


def test_B076_no_address_leaves_the_machine_that_is_of_no_use_to_others(overheard):
    """Neither loopback nor what belongs to another interface is told on the network, by either
    service; and nobody dials itself."""
    sniffer, hosts, _ = overheard
    for service in (P2P, EXO):
        wait_for(f"both speak of {service}", lambda s=service: has_spoken(sniffer, s), TOGETHER_S)
    loopback = r"(?<![\d.])127\.\d+\.\d+\.\d+|/ip6/::1/|^::1$"
    inner = r"172\.1[78]\.0\.\d|10\.0\.3\.1|100\.101\.102\.103"
    for source, record in sniffer.records():
        said = str(record.data)
        assert not re.search(loopback, said), (source, record)
        assert not re.search(inner, said), (source, record)
    assert hosts[1].dials_of_itself() == 0


def test_records_live_as_long_as_they_are_to(overheard):
    sniffer, _, nodes = overheard
    for service, ttl in ((P2P, 2500), (EXO, 180)):
        wait_for(f"both speak of {service}", lambda s=service: has_spoken(sniffer, s), TOGETHER_S)
        told = of_service(sniffer.records(), service, ("PTR", "TXT", "SRV"))
        lives = {r.ttl for _, r in told if r.ttl != 0 and not r.name.startswith("_services.")}
        assert lives == {ttl}, told
    # RFC 6762 11: who checks the IP TTL, as Avahi does, hears them.
    assert {ttl for _, _, ttl, _ in sniffer.packets} == {255}
    # TXT of _exo: who it is, as seed 002 wants it.
    texts = [r.data for _, r in of_service(sniffer.records(), EXO, ("TXT",))]
    keys = ("device_id=", "os_type=", "gpu_memory=", "rdma_support=", "version=")
    for node in nodes:
        (first, *_) = [t for t in texts if any(node.id in one for one in t)]
        for key in keys:
            assert any(one.startswith(key) for one in first), first


def test_B092_a_slow_link_that_loses_packets_is_joined_and_stays(
    laboratory, start, record_property
):
    """100 ms and 5 % loss each way: together soon, and not a single change for 30 s."""
    if laboratories.why_no_tun():
        pytest.skip(laboratories.why_no_tun())
    lan = laboratory.network()
    wires = [Wire(0.1, 5, seed=number) for number in (1, 2)]
    hosts = [laboratory.host(), laboratory.host(), laboratory.host(lan)]
    for host, wire in zip(hosts, wires):
        lan.plug(host, wire=wire)
    begun = time.monotonic()
    nodes = [start(host) for host in hosts]
    record_property("seconds", round(wait_together(nodes, since=begun), 2))

    # Each change of members or of the master would be an event.
    before = leaders_and_events(nodes)
    hold_together(nodes, 30)
    assert leaders_and_events(nodes) == before
    record_property("packets", [(wire.passed, wire.lost) for wire in wires])
    assert all(wire.lost > 0 for wire in wires)


def leaders_and_events(nodes):
    states = [state_of(node) for node in nodes]
    return [(state["masterNodeId"], state["lastEventAppliedIdx"]) for state in states]


def test_halves_of_a_network_that_grew_up_apart_become_one(laboratory, start, record_property):
    """Two switches with two machines each, which have found each other and have no reason to go on
    asking; then somebody puts a cable between the switches. No interface goes down or up."""
    lan = laboratory.network()
    hosts = [laboratory.host(lan) for _ in range(4)]
    for host in hosts:
        host.has_no_ip6()  # Whose discovery begins later, and would go on asking.
    lan.split(*hosts[2:])
    nodes = [start(host) for host in hosts]
    for half in (nodes[:2], nodes[2:]):
        wait_together(half)
    lan.join()
    record_property("seconds", round(wait_together(nodes), 2))


def test_B102_a_machine_that_has_gone_is_forgotten(laboratory, start, record_property):
    lan = laboratory.network()
    hosts = [laboratory.host(lan) for _ in range(2)]
    nodes = [start(host) for host in hosts]
    wait_together(nodes)
    nodes[1].process.kill()
    gone = time.monotonic()

    def is_forgotten():
        state = state_of(nodes[0])
        return nodes[1].id not in str([state["topology"], state["members"], state["nodeMemory"]])

    assert nodes[1].id
    wait_for("no trace of it", is_forgotten, FORGOTTEN_S)
    record_property("seconds", round(time.monotonic() - gone, 2))
