"""What nodes say of their cluster: who is there, who has a connection with whom, who is master."""
import http.client
import json
import time
import urllib.parse

import support

DOCTOR_S = 40  # What needs time to be told from a slow start (10 s), and its own look.
TOGETHER_S = 30  # The bound of the network: a change, until all nodes have one picture of it.


def fetch(node, path):
    """The light way to ask: polling eight nodes must not be what keeps the machine busy."""
    port = urllib.parse.urlsplit(node.url).port
    with node.host.entered():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
    if answer.status != 200:
        raise OSError(f"GET {path}: {answer.status} {body[:200]!r}")
    return json.loads(body)


def state_of(node):
    try:
        return fetch(node, "/state")
    except (http.client.HTTPException, ValueError) as error:
        raise OSError(str(error)) from error


def neighbours(state, node_id):
    """The nodes that this one has a connection with, as `state` tells."""
    return set(state["topology"]["connections"].get(node_id, {}))


def remote_ips(state, node_id):
    """The addresses of the other ends of this node's connections, by peer."""
    sinks = state["topology"]["connections"].get(node_id, {})
    return {
        peer: {sink["sinkMultiaddr"]["ip_address"] for sink in ends} for peer, ends in sinks.items()
    }


def missing(nodes, ghosts=False):
    """What keeps these nodes from being one cluster in every node's eyes, in words, or None.

    Each lists these nodes, knows that each of them has a connection with all others, and they have
    one master, who has taken them in. What a lost node once told is remembered for a while, which
    `ghosts` allows; members and connections are exact in any case."""
    ids = [node.id for node in nodes]
    masters = {}
    for node in nodes:
        state = state_of(node)
        who = ids.index(node.id)
        listed = set(state["topology"]["nodes"])
        if not (listed >= set(ids) if ghosts else listed == set(ids)):
            return f"node {who} lists {named(listed, ids)}"
        for one in ids:
            found = neighbours(state, one)
            if found != set(ids) - {one}:
                return f"node {who} tells of {ids.index(one)}: connected with {named(found, ids)}"
        if set(state["members"]) != set(ids):
            return f"members of node {who}: {named(state['members'], ids)}"
        masters[who] = state["masterNodeId"]
    if len(set(masters.values())) != 1 or not set(masters.values()) <= set(ids):
        return f"masters: { {who: named([m], ids) for who, m in masters.items()} }"
    return None


def named(found, ids):
    """Nodes by their place in the test, for people."""
    return sorted(str(ids.index(one)) if one in ids else f"stranger {one}" for one in found)


def wait_together(nodes, seconds=TOGETHER_S, since=None, ghosts=False, every=0.1):
    """Waits until they are one cluster; returns how long that took from `since` (or now)."""
    start = since or time.monotonic()
    last = ["nothing"]

    def together():
        last[0] = missing(nodes, ghosts)
        return last[0] is None

    try:
        support.wait_for("one cluster", together, start + seconds - time.monotonic(), every)
    except AssertionError as error:
        raise AssertionError(f"{len(nodes)} nodes are no cluster: {last[0]}\n{error}") from None
    return time.monotonic() - start


def hold_together(nodes, seconds, ghosts=False):
    """Watches that they stay one cluster, without a moment in which they are not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        lacking = missing(nodes, ghosts)
        assert lacking is None, lacking
        time.sleep(0.1)


def wait_alone(node, seconds=TOGETHER_S):
    """Waits until a node has no connection and leads itself, without other members."""

    def alone():
        state = state_of(node)
        is_alone = set(state["members"]) == {node.id} and not neighbours(state, node.id)
        return is_alone and state["masterNodeId"] == node.id

    support.wait_for("it leads itself", alone, seconds)


def master_of(nodes):
    """The master that all agree on."""
    (master,) = {state_of(node)["masterNodeId"] for node in nodes}
    return next(node for node in nodes if node.id == master)


# ---- what they say of their network


def doctor(node):
    """What `exo doctor --json` finds on a node's host, as {code: finding}."""
    done = support.run_exo("doctor", "--json", home=node.home, host=node.host, seconds=DOCTOR_S)
    assert done.stdout, done.stderr
    return {finding["code"]: finding for finding in json.loads(done.stdout)["findings"]}


def diagnosis(node):
    """The same of GET /network/diagnosis."""
    found = fetch(node, "/network/diagnosis")["findings"]
    return {finding["code"]: finding for finding in found}


def is_trouble(finding):
    return finding["severity"] in ("warning", "error")
