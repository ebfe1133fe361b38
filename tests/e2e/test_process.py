"""Faults of processes and neighbours: what ends, what goes on, and what is left behind."""
import contextlib
import os
import random
import re
import signal
import socket
import time

import pytest
import support
from support import LOAD_S, MODEL, Streaming, wait_for

LONG = {"max_tokens": 4000, "temperature": 0.8, "extra_body": {"seed": 1}}


def test_sigterm_during_a_stream_ends_all_within_3_seconds(nodes):
    node = nodes.start()
    stream = Streaming(node, **LONG)
    stream.wait_pieces()
    children = node.children()
    assert children
    sent = time.monotonic()
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(3) == 0
    stream.join(1)
    assert stream.ended_at is not None and stream.ended_at - sent < 3
    assert not [child for child in children if support.is_alive(child)]


def test_a_killed_runner_is_an_error_on_the_stream_and_the_model_is_served_again(nodes):
    node = nodes.start()
    stream = Streaming(node, **LONG)
    stream.wait_pieces()
    (runner,) = node.runners()
    os.kill(runner, signal.SIGKILL)
    stream.join(10)
    assert stream.error is not None, "".join(stream.pieces)[-200:]
    assert node.process.poll() is None
    assert "Paris" in node.ask()


def test_a_killed_node_leaves_no_runner_behind(nodes):
    node = nodes.start()
    node.ask(max_tokens=1)
    children = node.children()
    assert children
    node.process.kill()
    node.process.wait(5)
    wait_for("no child is left", lambda: not any(map(support.is_alive, children)), 3)


def test_the_last_words_of_a_runner_are_in_the_state_and_the_log(nodes):
    # A rank that hangs falls silent; the other says so on stderr, and ends.
    first = nodes.start()
    second = nodes.start("--bootstrap-peers", peer_address(first))
    first.wait_ready(first.place(min_nodes=2))

    def failure():
        statuses = first.state()["runners"].values()
        return next((s["RunnerFailed"] for s in statuses if "RunnerFailed" in s), None)

    (hanging,) = second.runners()
    os.kill(hanging, signal.SIGSTOP)
    seen = wait_for("the state shows the failure", failure, 15, every=0.01)
    os.kill(hanging, signal.SIGKILL)
    assert "silent" in seen["errorMessage"]
    assert any("silent" in line for line in seen["diagnostics"]), seen
    assert "silent" in first.log()


def test_a_client_that_hangs_up_frees_its_sequence(nodes):
    node = nodes.start()
    node.ask(max_tokens=1)
    pieces = node.stream(support.LONG_STORY, **LONG)
    for _ in range(3):
        next(pieces)
    pieces.close()
    wait_for("no task runs", lambda: not active_tasks(node), 2)
    wait_for("the runner is idle", lambda: "RunnerReady" in str(node.state()["runners"]), 2)
    assert "Paris" in node.ask()


def test_a_client_that_hangs_up_on_one_node_frees_its_sequence_on_another(nodes):
    runs_it = nodes.start()
    runs_it.ask(max_tokens=1)
    asked = nodes.start("--bootstrap-peers", peer_address(runs_it))
    wait_for("the second node sees the instance", lambda: asked.state()["instances"], 10)
    pieces = asked.stream(support.LONG_STORY, **LONG)
    for _ in range(3):
        next(pieces)
    assert not asked.runners(), "the first node should run the model"
    pieces.close()
    wait_for("no task runs", lambda: not active_tasks(runs_it), 2)
    wait_for("the runner is idle", lambda: "RunnerReady" in str(runs_it.state()["runners"]), 2)


def active_tasks(node):
    return [
        task
        for task in node.state()["tasks"].values()
        if any(status in str(task) for status in ("Pending", "Running"))
    ]


def listeners(pids):
    """Addresses and TCP ports at which these processes listen, as one can connect to them."""
    inodes = set()
    for pid in pids:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # Closed since it was listed.
                target = os.readlink(entry.path)
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
    found = set()
    for table, address in (("/proc/net/tcp", "127.0.0.1"), ("/proc/net/tcp6", "::1")):
        with open(table, encoding="ascii") as rows:
            for fields in map(str.split, list(rows)[1:]):
                if fields[3] == "0A" and fields[9] in inodes:
                    found.add((address, int(fields[1].rpartition(":")[2], 16)))
    return sorted(found)


def test_random_bytes_at_every_listening_port_do_no_harm(nodes):
    node = nodes.start()
    assert "Paris" in node.ask()
    found = listeners([node.process.pid, *node.runners()])
    assert len(found) >= 2  # The API and the libp2p host.
    noise = random.Random(1)
    for where in found * 8:
        with socket.create_connection(where, timeout=5) as connection:
            connection.settimeout(0.2)
            try:
                connection.sendall(noise.randbytes(noise.choice([1, 24, 700, 70_000])))
                connection.recv(100)
            except OSError:
                pass  # It closed on us, or waits for more: both are right.
    assert node.process.poll() is None
    assert "Paris" in node.ask()


def peer_address(node):
    node.is_up()
    return "127.0.0.1:" + re.search(r"/ip4/[\d.]+/tcp/(\d+)", node.log())[1]


def test_a_peer_of_another_namespace_is_dropped_and_both_live_on(nodes):
    first = nodes.start()
    flags = ("--namespace", nodes.namespace + "-other", "--bootstrap-peers", peer_address(first))
    second = nodes.start(*flags, models=False)
    for node in (first, second):
        wait_for("each is its own master", lambda n=node: n.state()["masterNodeId"] == n.id, 10)
    deadline = time.monotonic() + 7  # Longer than a redial.
    while time.monotonic() < deadline:
        assert first.state()["topology"]["nodes"] == [first.id]
        assert second.state()["topology"]["nodes"] == [second.id]
        time.sleep(0.5)
    assert "Paris" in first.ask()


def test_two_nodes_on_one_machine_make_one_cluster_that_shares_a_model(nodes):
    first = nodes.start()
    second = nodes.start("--bootstrap-peers", peer_address(first))
    both = {first.id, second.id}
    for node in (first, second):
        wait_for("both are seen", lambda n=node: set(n.state()["topology"]["nodes"]) == both, 15)
    instance = second.place(min_nodes=2)
    second.wait_ready(instance)
    assert support.nodes_of(second.state(), instance) == both
    assert "Paris" in first.ask()


@pytest.mark.parametrize("flag", ["--no-worker", "--no-api"])
def test_a_node_without_a_part_still_joins(flag, nodes):
    first = nodes.start()
    nodes.start(flag, "--bootstrap-peers", peer_address(first))
    wait_for("both are seen", lambda: len(first.state()["topology"]["nodes"]) == 2, 15)
    assert MODEL in str(first.get("/v1/models")).lower()
    assert "Paris" in first.ask(timeout=LOAD_S)
