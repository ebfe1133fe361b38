"""DNS-SD as people and their tools see it: `_exo._tcp.local` beside a running avahi-daemon.

The machines are netlab hosts, which all have this machine's host name: so the instances also show
what happens to names that are taken. A host that runs avahi-daemon has a /run of its own."""
import contextlib
import os
import re
import shutil
import subprocess
import time

import httpx
import pytest
import support
from support import wait_for

MACHINE = os.uname().nodename
FOUND_S = 15  # Probing for two names, and the node's own start.
GONE_S = 10
KEYS = {"txtvers", "device_id", "network", "version", "os_type", "memory", "gpu_memory",
        "rdma_support", "api", "addr1"}

DAEMON = """
mount -t tmpfs tmpfs /run && mkdir -p /run/dbus /run/avahi-daemon || exit 1
dbus-daemon --system --fork --nopidfile || exit 1
exec avahi-daemon --no-drop-root --no-chroot --no-rlimits
"""

# Packets whose first name begins with the label _p2p, which libp2p's mDNS sends, never leave.
NO_LIBP2P_MDNS = """table inet exo_test {
  chain out {
    type filter hook output priority 0
    udp dport 5353 @th,160,40 0x045f703270 counter drop
  }
}
"""


class AvahiDaemon:
    """avahi-daemon and the D-Bus that its tools need, on a netlab host."""

    def __init__(self, host, lab):
        self.environment = {"NETLAB": lab.name, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        command = [*host.prefix, "unshare", "--mount", "--pid", "--fork", "--kill-child",
                   "bash", "-c", DAEMON]
        self.process = subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.inside = None
        wait_for("avahi-daemon runs", self.is_up, support.START_S)

    def is_up(self):
        below = support.children_of(self.process.pid)
        assert self.process.poll() is None, self.process.stdout.read().decode()
        if not below:
            return False
        self.inside = ["nsenter", "--mount", "--net", "--target", str(below[0][0])]
        return host_is_known(self)

    def ask(self, *command):
        done = subprocess.run([*self.inside, *command], capture_output=True, text=True, timeout=30)
        return done.stdout

    def instances(self):
        """{name: {key: value, ..., "host": ..., "port": ...}} of what is there now."""
        found = {}
        for line in self.ask("avahi-browse", "-rtp", "_exo._tcp").splitlines():
            field = line.split(";")
            if field[0] != "=":
                continue
            texts = re.findall(r'"([^"=]+)=([^"]*)"', ";".join(field[9:]))
            found[field[3]] = dict(texts) | {"host": field[6], "port": int(field[8])}
        return found

    def stop(self):
        self.process.kill()  # unshare; the kernel kills what is in its process namespace.
        self.process.wait(10)
        self.process.stdout.close()


def host_is_known(daemon):
    """The daemon has kept the name and the address of its machine."""
    name = f"{MACHINE.partition('.')[0]}.local"
    return ("10.77.0.1" in daemon.ask("avahi-resolve", "-4", "-n", name)
            and name in daemon.ask("avahi-resolve", "-a", "10.77.0.1"))


@pytest.fixture
def daemon(two_hosts):
    missing = [tool for tool in ("avahi-daemon", "avahi-browse", "dbus-daemon", "nsenter")
               if shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    running = AvahiDaemon(two_hosts.hosts[0], two_hosts)
    yield running
    running.stop()


def test_avahi_browse_shows_nodes_while_they_are_there(two_hosts, daemon, nodes):
    pair = [nodes.start(host=host, models=False) for host in two_hosts.hosts]
    found = wait_for(
        "both are shown", lambda: len(daemon.instances()) == 2 and daemon.instances(), FOUND_S
    )
    assert set(found) == {MACHINE, f"{MACHINE}-2"}, "the second of a name has a number"
    by_id = {one["device_id"]: one for one in found.values()}
    assert set(by_id) == {node.id for node in pair}
    for node, host in zip(pair, two_hosts.hosts):
        shown = by_id[node.id]
        assert KEYS <= set(shown), shown
        assert shown["port"] == 52415
        assert shown["host"] == f"exo-{node.id[-12:].lower()}.local"
        assert shown["addr1"].startswith(f"/ip4/{host.address}/tcp/")
        assert shown["addr1"].endswith(f"/p2p/{node.id}")
        assert shown["os_type"] == "linux"
        assert (shown["rdma_support"], shown["api"]) == ("false", "local")
    assert len({one["network"] for one in found.values()}) == 1
    assert host_is_known(daemon)
    assert "_exo._tcp" in daemon.ask("avahi-browse", "-atp")

    second = pair[1].id
    pair[1].stop()
    wait_for(
        "it has said good-bye",
        lambda: second not in {one.get("device_id") for one in daemon.instances().values()},
        GONE_S,
    )
    assert len(daemon.instances()) == 1


def test_nodes_meet_by_dns_sd_alone(two_hosts, nodes):
    if shutil.which("nft") is None:
        pytest.skip("not installed: nft")
    for host in two_hosts.hosts:
        nft = subprocess.run(
            ["ip", "netns", "exec", host.name, "nft", "-f", "-"],
            input=NO_LIBP2P_MDNS, text=True, capture_output=True,
        )
        if nft.returncode != 0:
            pytest.skip(f"no packet filter here: {nft.stderr.strip()}")
    pair = [nodes.start(host=host, models=False) for host in two_hosts.hosts]
    ids = {node.id for node in pair}
    for node in pair:
        wait_for("it sees both", lambda n=node: set(n.state()["topology"]["nodes"]) == ids, FOUND_S)
    rules = subprocess.run(
        ["ip", "netns", "exec", two_hosts.hosts[0].name, "nft", "list", "ruleset"],
        text=True, capture_output=True, check=True,
    ).stdout
    assert int(re.search(r"counter packets (\d+)", rules)[1]) > 0, "libp2p's mDNS was silenced"


def test_a_node_without_discovery_is_silent_and_deaf(two_hosts, daemon, nodes):
    hidden = nodes.start("--no-discovery", host=two_hosts.hosts[0], models=False)
    seen = nodes.start(host=two_hosts.hosts[1], models=False)
    shown = wait_for("one is shown", lambda: daemon.instances(), FOUND_S)
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        assert [one["device_id"] for one in shown.values()] == [seen.id]
        with contextlib.suppress(httpx.HTTPError):
            assert set(hidden.state()["topology"]["nodes"]) <= {hidden.id}
        shown = daemon.instances()
