"""`exo doctor` and GET /network/diagnosis: what a user is told, on real networks that are well, and
on networks that are broken in one way each."""
import contextlib
import json
import pathlib
import re
import shutil
import socket
import subprocess
import threading

import pytest
import support
from support import wait_for

SETTLE_S = 10  # Until silence says something (net/diagnosis/diagnosis.hpp).
SAID_S = 25  # From a fault to its finding, with the dials and pings that it needs.
NOWHERE = "10.77.0.99"  # On the network of the lab hosts, and nobody's.


def doctor(*flags, host=None):
    return support.run_exo("doctor", *flags, host=host)


def findings(host, *flags):
    done = doctor("--json", *flags, host=host)
    assert done.returncode in (0, 1), done.stderr
    return {finding["code"]: finding for finding in json.loads(done.stdout)["findings"]}


def diagnosis(node):
    return node.get("/network/diagnosis")


def said(node, code):
    """What the node says of its network under `code`, or None."""
    found = [finding for finding in diagnosis(node)["findings"] if finding["code"] == code]
    return found[0] if found else None


def wait_said(node, code):
    return wait_for(f"it says {code}", lambda: said(node, code), SAID_S, every=0.5)


def drop_multicast(host, chain):
    """The host's own firewall drops mDNS, as one hook of nftables."""
    rules = f"""table inet doctor {{
        chain {chain} {{ type filter hook {chain} priority 0; udp dport 5353 drop; }}
    }}"""
    done = subprocess.run(
        ["ip", "netns", "exec", host.name, "nft", "-f", "-"],
        input=rules, capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture
def quiet_hosts(two_hosts):
    """Two hosts that hear nobody but each other: this machine, whose bridge connects them, has no
    address there for whatever speaks mDNS on it."""
    for device in (f"{two_hosts.name}0", f"{two_hosts.name}-v1", f"{two_hosts.name}-v2"):
        pathlib.Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").write_text("1")
    return two_hosts


@pytest.fixture
def deaf_hosts(two_hosts):
    """Two hosts, of which neither lets multicast in."""
    if shutil.which("nft") is None:
        pytest.skip("needs nftables")
    for host in two_hosts.hosts:
        drop_multicast(host, "input")
    return two_hosts


# ---- without a node


def test_help_names_the_flags_and_a_wrong_one_ends_with_2():
    done = doctor("--help")
    assert done.returncode == 0
    for flag in ("--api-port", "--json"):
        assert flag in done.stdout
    for flags in (["--no-such-flag"], ["--api-port", "70000"], ["extra"]):
        done = doctor(*flags)
        assert done.returncode == 2, flags
        assert len(done.stderr.splitlines()) <= 3, done.stderr


def test_without_a_node_it_says_so_and_looks_all_the_same(quiet_hosts):
    host = quiet_hosts.hosts[0]
    done = doctor(host=host)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing listens at 127.0.0.1:52415" in done.stdout
    assert re.search(r"^eth0 +\S+ +10\.77\.0\.1 +[1-9]", done.stdout, re.MULTILINE), done.stdout
    assert "nobody was heard by multicast" in done.stdout
    assert "\x1b" not in done.stdout  # No colours but on a terminal.


def test_each_finding_is_one_line_and_its_remedy_another(quiet_hosts):
    lines = doctor(host=quiet_hosts.hosts[0]).stdout.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("warning"))
    for line in lines[begin:]:
        assert re.match(r"(ok|note|warning|error) +\S|  +-> \S", line), line


@contextlib.contextmanager
def other_program(answer):
    """Something else at a port that people take for exo's."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    client, _ = server.accept()
                    kept.append(client)
                    if answer:
                        client.recv(1000)
                        client.sendall(answer)
                        client.close()

        kept = []
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    "answer",
    [None, b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"],
    ids=["silent", "no HTTP", "another HTTP server"],
)
def test_another_program_at_the_port_of_the_api_is_an_error(answer):
    with other_program(answer) as port:
        done = doctor("--api-port", str(port))
    assert done.returncode == 1, done.stdout
    assert f"127.0.0.1:{port}" in done.stdout
    assert "another program has port" in done.stdout


# ---- with nodes


def test_two_nodes_that_see_each_other_are_well(two_hosts, nodes):
    pair = [nodes.start(host=host, models=False) for host in two_hosts.hosts]
    ids = [node.id for node in pair]
    wait_said(pair[0], "connected")
    # Nothing may be said when silence would say something, either.
    wait_for("it has settled", lambda: diagnosis(pair[0])["for_s"] > SETTLE_S + 2, 30)
    done = doctor(host=pair[0].host)
    assert done.returncode == 0
    assert not re.search("^(warning|error)", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^ok +1 peer connected: .* at 10\.77\.0\.2", done.stdout, re.MULTILINE)
    assert "multicast was heard on eth0 from 10.77.0.2" in done.stdout

    document = diagnosis(pair[0])
    assert document["node_id"] == ids[0] and document["isolated"] is False
    (peer,) = [peer for peer in document["peers"] if peer["peer_id"] == ids[1]]
    assert peer["connected"] and peer["name"]
    for connection in peer["connections"]:
        assert connection["remote_ip"] in ("10.77.0.2", "") or ":" in connection["remote_ip"]
    eth0 = next(one for one in document["interfaces"] if one["ips"] == ["10.77.0.1"])
    assert eth0["name"] == "eth0" and eth0["error"] is None
    assert eth0["packets_returned"] == eth0["packets_sent"] > 0
    assert [one["ip"] for one in eth0["heard"]] == ["10.77.0.2"]


def test_B145_a_node_that_has_just_started_raises_no_alarm(two_hosts, nodes):
    node = nodes.start(host=two_hosts.hosts[0], models=False)
    node.id
    document = diagnosis(node)
    if document["for_s"] < SETTLE_S:
        assert {one["severity"] for one in document["findings"]} <= {"ok", "note"}, document


def test_B073_a_node_that_is_alone_names_interface_group_and_port(quiet_hosts, nodes):
    node = nodes.start(host=quiet_hosts.hosts[0], models=False)
    node.id
    silent = wait_said(node, "multicast_silent")
    for word in ("eth0", "224.0.0.251", "5353"):
        assert word in silent["message"], silent
    assert "--bootstrap-peers" in silent["remedy"]
    assert said(node, "isolated")["severity"] == "warning"
    assert diagnosis(node)["isolated"] is True
    done = doctor(host=node.host)
    assert done.returncode == 0, done.stdout  # Nothing is known to be wrong.
    assert done.stdout.count("nobody was heard") == 1, done.stdout


def test_a_bootstrap_peer_that_is_not_there_is_an_error_with_the_reason(two_hosts, nodes):
    refused = f"{two_hosts.hosts[1].address}:4001"
    node = nodes.start(
        "--bootstrap-peers", f"{NOWHERE}:4001,{refused}", host=two_hosts.hosts[0], models=False
    )
    node.id
    listening = wait_said(node, "nothing_listens")
    assert listening["severity"] == "error" and refused in listening["message"]
    lost = wait_for(
        "it says that nobody is there",
        lambda: said(node, "no_route") or said(node, "no_answer"), SAID_S, every=0.5,
    )
    assert lost["severity"] == "error" and f"{NOWHERE}:4001" in lost["message"]
    done = doctor(host=node.host)
    assert done.returncode == 1
    assert done.stdout.count("bootstrap peer") == 2, done.stdout


def test_a_node_of_another_namespace_is_named_on_both_sides(two_hosts, nodes):
    first, second = (
        nodes.start("--namespace", name, host=host, models=False)
        for name, host in zip(("test-one", "test-two"), two_hosts.hosts)
    )
    for node, other in ((first, second), (second, first)):
        node.id
        found = wait_for(
            "it says that the other is of another network",
            lambda n=node: said(n, "other_network"), SAID_S, every=0.5,
        )
        assert "namespace" in found["message"] and "--namespace" in found["remedy"]
    # Who dials is refused at the door; one of the two at least has seen that.
    # An announcement is heard before a handshake has failed.
    wait_for(
        "one says whom it refused",
        lambda: any(said(node, "stranger_refused") for node in (first, second)), SAID_S, every=0.5,
    )
    addresses = {host.address for host in two_hosts.hosts}
    wait_for(
        "it was the other",
        lambda: addresses & {
            entry["ip"] for node in (first, second) for entry in diagnosis(node)["refused"]
        },
        SAID_S, every=0.5,
    )


def test_dropped_multicast_is_named_as_the_cause_and_bootstrap_peers_join(deaf_hosts, nodes):
    first = nodes.start("--libp2p-port", "4001", host=deaf_hosts.hosts[0], models=False)
    second = nodes.start(
        "--bootstrap-peers", f"{deaf_hosts.hosts[0].address}:4001",
        host=deaf_hosts.hosts[1], models=False,
    )
    for node in (first, second):
        node.id
        wait_said(node, "connected")
        wait_said(node, "multicast_not_returned")
        blocked = wait_said(node, "multicast_blocked")
        assert blocked["severity"] == "warning" and "eth0" in blocked["message"]
    found = findings(second.host)
    assert "firewall" in found["multicast_not_returned"]["remedy"]


def test_without_a_node_too_a_firewall_that_drops_multicast_is_named(deaf_hosts):
    host = deaf_hosts.hosts[0]
    found = findings(host)
    assert "firewall" in found["multicast_not_returned"]["remedy"]
    drop_multicast(host, "output")
    found = findings(host)
    assert found["multicast_cannot_send"]["severity"] == "error"
    assert "not permitted" in found["multicast_cannot_send"]["message"]


def test_multicast_that_is_dropped_on_the_way_is_told_from_a_firewall(two_hosts, nodes):
    """As a switch or an access point does it: own packets come back, those of others do not."""
    table, ports = two_hosts.name, [f'"{two_hosts.name}-v{host}"' for host in (1, 2)]
    rules = f"""table netdev {table} {{
        chain ports {{
            type filter hook ingress devices = {{ {", ".join(ports)} }} priority 0;
            meta pkttype multicast udp dport 5353 drop;
        }}
    }}"""
    made = subprocess.run(["nft", "-f", "-"], input=rules, capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no firewall for ports of a bridge here: {made.stderr.strip()}")
    try:
        first = nodes.start("--libp2p-port", "4001", host=two_hosts.hosts[0], models=False)
        second = nodes.start(
            "--bootstrap-peers", f"{two_hosts.hosts[0].address}:4001",
            host=two_hosts.hosts[1], models=False,
        )
        for node in (first, second):
            node.id
            blocked = wait_said(node, "multicast_blocked")
            assert "multicast does not get through on eth0" in blocked["message"]
            assert said(node, "multicast_not_returned") is None
        assert "multicast_blocked" in findings(first.host)
    finally:
        subprocess.run(["nft", "delete", "table", "netdev", table], check=True)


def test_B078_a_copied_home_is_an_error_that_names_the_file(two_hosts, nodes, tmp_path):
    first = nodes.start(host=two_hosts.hosts[0], models=False)
    first.id
    copy = tmp_path / "copy"
    copy.mkdir()
    for key in first.home.rglob("node_id.keypair"):
        target = copy / key.relative_to(first.home)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(key, target)
    second = nodes.start(home=copy, host=two_hosts.hosts[1], models=False)
    assert second.id == first.id
    for node in (first, second):
        found = wait_said(node, "same_key")
        assert found["severity"] == "error" and "node_id.keypair" in found["remedy"]
    assert doctor(host=first.host).returncode == 1
