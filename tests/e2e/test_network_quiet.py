"""Networks without multicast: nobody is found, one address is enough to bring all together, and the
diagnosis says what is wrong."""
import time

import pytest
import topology
from sniffer import Sniffer
from support import wait_for
from topology import DOCTOR_S, TOGETHER_S, state_of, wait_together

SECONDS = 5  # A bootstrap peer that answers; B086 was minutes.
PORT = 4001


def seed_flags():
    return "--libp2p-port", str(PORT)


def peers(*addresses):
    return "--bootstrap-peers", ",".join(addresses)


def quiet(laboratory, count):
    """Hosts on a network that carries no multicast."""
    lan = laboratory.network()
    lan.drops_multicast()
    return lan, [laboratory.host(lan) for _ in range(count)]


def multicast_findings(found):
    return {c: f for c, f in found.items() if c.startswith("multicast_") and topology.is_trouble(f)}


def test_without_multicast_nobody_is_found_and_the_doctor_says_so(laboratory, start):
    lan, hosts = quiet(laboratory, 2)
    sniffer = Sniffer(lan)
    try:
        pair = [start(host) for host in hosts]
        sources = {f"10.77.0.{number}" for number in (1, 2)}
        # At 0, 1 and 3 s: whoever could be heard would have been.
        wait_for(
            "both have asked three times",
            lambda: all(sniffer.questions_of(source) >= 3 for source in sources),
            TOGETHER_S,
        )
    finally:
        sniffer.stop()
    for node in pair:
        topology.wait_alone(node)
        assert state_of(node)["topology"]["nodes"] == [node.id]

    found = wait_for("a finding", lambda: multicast_findings(topology.diagnosis(pair[0])), DOCTOR_S)
    named(found)
    named(multicast_findings(topology.doctor(pair[1])))


def named(found):
    """The cause, and what to do about it in one line."""
    assert found, "multicast is not named"
    for finding in found.values():
        assert "multicast" in finding["message"]
        assert finding["remedy"] and "\n" not in finding["remedy"]
    assert any("--bootstrap-peers" in finding["remedy"] for finding in found.values()) or all(
        "5353" in finding["remedy"] for finding in found.values()
    )


def test_B089_one_address_in_any_form_brings_all_together(laboratory, start, record_property):
    """Each has been given the same peer in another way; the others they learn from it."""
    _, hosts = quiet(laboratory, 5)
    hosts[3].knows("seed.lab", "10.77.0.1")
    seed = start(hosts[0], *seed_flags())
    forms = [
        f"10.77.0.1:{PORT}",
        f"/ip4/10.77.0.1/tcp/{PORT}/p2p/{seed.id}",
        f"seed.lab:{PORT}",
        f"/ip4/10.77.0.1/tcp/{PORT}",
    ]
    begun = time.monotonic()
    rest = [start(host, *peers(form)) for host, form in zip(hosts[1:], forms)]
    record_property("seconds", round(wait_together([seed, *rest], since=begun), 2))


def test_B089_a_bootstrap_peer_that_comes_late_and_returns_as_somebody_else(
    laboratory, start, nodes, record_property
):
    """Nobody is at the address at first; then a node; then, at the same address, another one."""
    _, hosts = quiet(laboratory, 3)
    rest = [start(host, *peers(f"10.77.0.1:{PORT}")) for host in hosts[1:]]
    for node in rest:
        topology.wait_alone(node)
    begun = time.monotonic()
    seed = start(hosts[0], *seed_flags())
    record_property("came_seconds", round(wait_together([seed, *rest], since=begun), 2))

    seed.process.kill()
    seed.process.wait()
    begun = time.monotonic()
    other = start(hosts[0], *seed_flags())
    assert other.id != seed.id
    record_property(
        "returned_seconds", round(wait_together([other, *rest], since=begun, ghosts=True), 2)
    )


@pytest.mark.parametrize("given", ["list", "name"])
def test_B086_a_dead_ip6_address_that_comes_first_costs_no_time(
    laboratory, start, record_property, given
):
    """IPv6 looks as if it worked: there is an address and a default route, whose router takes every
    packet and answers none."""
    lan, hosts = quiet(laboratory, 2)
    hosts[1].ip(
        "addr add 2001:db8:1::2/64 dev eth0 nodad",
        "neigh add fe80::bad lladdr 02:00:00:00:0b:ad dev eth0 nud permanent",
        "route add default via fe80::bad dev eth0",
    )
    hosts[1].knows("seed.lab", "2001:db8:2::1", "10.77.0.1")
    seed = start(hosts[0], *seed_flags())
    assert seed.id
    dead_first = {
        "list": (f"[2001:db8:2::1]:{PORT}", f"10.77.0.1:{PORT}"),
        "name": (f"seed.lab:{PORT}",),
    }
    begun = time.monotonic()
    node = start(hosts[1], *peers(*dead_first[given]))
    wait_for("its API answers at once", node.is_up, SECONDS)
    record_property("api_seconds", round(time.monotonic() - begun, 2))
    record_property("seconds", round(wait_together([seed, node], SECONDS, since=begun), 2))


def test_B084_B089_behind_nat_and_without_multicast_one_address_is_enough(laboratory, start):
    lan, hosts = quiet(laboratory, 3)
    hosts[2].refuses_connections()
    seed = start(hosts[0], *seed_flags())
    rest = [start(host, *peers(f"10.77.0.1:{PORT}")) for host in hosts[1:]]
    wait_together([seed, *rest])
