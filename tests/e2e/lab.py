"""A network laboratory: hosts (network namespaces) on networks (bridges), with what real networks
have in their way: cables that are pulled, switches that fall apart, firewalls, containers, VPNs
that lead nowhere, wires that are slow and lose packets. Nodes of the program run on the hosts.

Everything of a laboratory is in namespaces of its own whose names begin with PREFIX and the process
id of its maker: they go with it, and what an interrupted run has left is removed by the next one.
The bridges are in a namespace of their own too (the switch), so nothing of this machine is touched.

`shared/tools/netlab` is the small brother of this, for people and benches."""
import contextlib
import fcntl
import itertools
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess

import support
import wires

NODE_FLAGS = ("--no-worker", "-v")  # Of a node that is there for the network's sake.
PREFIX = "exolab"
ETC = pathlib.Path("/etc/netns")  # What `ip netns exec NAME` lays over /etc.


def why_no_lab():
    """The reason why no laboratory can be made here, or None."""
    if os.geteuid() != 0:
        return "a laboratory of network namespaces needs root"
    for program, package in (("ip", "iproute2"), ("nft", "nftables")):
        if shutil.which(program) is None:
            return f"a laboratory of network namespaces needs {program} (Debian: {package})"
    name = f"{PREFIX}-{os.getpid()}-probe"
    try:
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "add", "probe", "type", "bridge")
    except OSError as error:
        return f"no network namespaces here: {error}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return None


def why_no_tun():
    """The reason why no interface can be served by a program here, or None."""
    return None if os.path.exists("/dev/net/tun") else "there is no /dev/net/tun"


def run(*command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()} {text or ''}")
    return done.stdout


def namespaces():
    return [line.split()[0] for line in run("ip", "netns", "list").splitlines() if line]


def remove_namespace(name):
    """Ends what runs there, then the namespace and its files."""
    for pid in run("ip", "netns", "pids", name).split():
        with contextlib.suppress(OSError):
            os.kill(int(pid), signal.SIGKILL)
    run("ip", "netns", "del", name)
    shutil.rmtree(ETC / name, ignore_errors=True)


def remove_left_over():
    """Removes the laboratories of processes that have ended without doing so."""
    for name in namespaces():
        prefix, _, rest = name.partition("-")
        pid = rest.partition("-")[0]
        if prefix == PREFIX and pid.isdigit() and not pathlib.Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):  # Another run removes it at this moment.
                remove_namespace(name)


TUN, TAP = 1, 2  # Linux's IFF_TUN and IFF_TAP.


class Host(support.ThisMachine):
    """A machine: a network namespace. `prefix` starts a program there; a thread that has entered
    it opens its sockets there."""

    def __init__(self, lab, label):
        self.lab, self.name = lab, f"{lab.name}-{label}"
        self.prefix = ("ip", "netns", "exec", self.name)
        run("ip", "netns", "add", self.name)
        self.ip("link set lo up")

    @contextlib.contextmanager
    def entered(self):
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        try:
            support.set_namespace(there)
            yield
        finally:
            support.set_namespace(home)
            os.close(there)
            os.close(home)

    def ip(self, *lines):
        """Lines of ip(8), without the word ip."""
        run("ip", "-n", self.name, "-batch", "-", text="\n".join(lines) + "\n")

    def nft(self, rules):
        # nft wants blocks to begin and end on lines of their own.
        text = rules.replace("{", "{\n").replace("}", "\n}\n")
        run(*self.prefix, "nft", "-f", "-", text=text)

    def has_no_ip6(self, interface="eth0"):
        self.sysctl(f"ipv6/conf/{interface}/disable_ipv6", 1)

    def sysctl(self, name, value):
        # /proc/sys/net shows the namespace of the process that looks.
        run(*self.prefix, "sh", "-c", f"echo {value} > /proc/sys/net/{name}")

    def knows(self, name, *addresses):
        """Puts a name into its /etc/hosts; for programs that start later."""
        (ETC / self.name).mkdir(parents=True, exist_ok=True)
        with open(ETC / self.name / "hosts", "a", encoding="ascii") as hosts:
            hosts.writelines(f"{address} {name}\n" for address in addresses)

    def link_local(self, interface="eth0"):
        """The IPv6 address that the interface gave itself, once it is usable."""
        return support.wait_for(
            "a link-local address",
            lambda: next(
                (
                    line.split()[3].partition("/")[0]
                    for line in run(
                        "ip", "-n", self.name, "-6", "-o", "addr", "show", "dev", interface,
                        "scope", "link",
                    ).splitlines()
                    if "tentative" not in line
                ),
                None,
            ),
            10,
        )

    # -- what machines have besides their network card

    def has_containers(self):
        """What docker and lxc leave on a machine: docker0 without a container, a bridge with one,
        and lxcbr0. The addresses are the same on every machine. Returns the container."""
        self.ip(
            "link add docker0 type bridge",
            "addr add 172.17.0.1/16 dev docker0",
            "link set docker0 up",
            # It had a container once, and has no carrier since that left.
            "link add left type veth peer name gone",
            "link set left master docker0 up",
            "link del left",
            "link add lxcbr0 type bridge",
            "addr add 10.0.3.1/24 dev lxcbr0",
            "link set lxcbr0 up",
            "link add br-5f0c type bridge",
            "addr add 172.18.0.1/16 dev br-5f0c",
            "link set br-5f0c up",
        )
        container = self.lab.new_host(f"{self.name.rpartition('-')[2]}c")
        self.ip(
            f"link add veth7a1 type veth peer name eth0 netns {container.name}",
            "link set veth7a1 master br-5f0c up",
        )
        container.ip(
            "addr add 172.18.0.2/16 dev eth0",
            "link set eth0 up",
            "route add default via 172.18.0.1",
        )
        self.sysctl("ipv4/ip_forward", 1)
        self.nft(
            "table ip nat { chain post { type nat hook postrouting priority 100;"
            " ip saddr 172.16.0.0/12 oifname eth0 masquerade; } }"
        )
        return container

    def has_dead_vpn(self, address="100.101.102.103", name="tailscale0"):
        """A tunnel that is up and takes every packet, and whose other end is gone."""
        end = self.lab.tunnel_end(self, name, TUN)
        self.lab.pump.drain(end)
        self.ip(
            f"addr add {address}/32 dev {name}",
            f"link set {name} multicast on up",
            f"route add 100.64.0.0/10 dev {name}",
        )

    def refuses_connections(self, how="drop"):
        """A firewall or NAT: what starts outside does not come in, answers do."""
        self.nft(
            "table inet closed { chain input { type filter hook input priority 0;"
            f" iifname != lo tcp flags & (syn | ack) == syn {how}; }} }}"
        )

    def counts_dials_of_itself(self):
        """Counts connections over the loopback interface, but those with the API."""
        self.nft(
            "table inet watch { counter dials { }"
            " chain output { type filter hook output priority 0; oifname lo"
            " tcp flags & (syn | ack) == syn tcp dport != 52415 counter name dials; } }"
        )

    def dials_of_itself(self):
        listed = run(*self.prefix, "nft", "list", "counter", "inet", "watch", "dials")
        return int(re.search(r"packets (\d+)", listed)[1])


class Network:
    """A switch of its own: a bridge. `ip4` and `ip6` number the hosts that are plugged in."""

    ports = itertools.count(1)

    def __init__(self, lab, name, ip4="10.77.0.{}/24", ip6=None):
        self.lab, self.name, self.ip4, self.ip6 = lab, name, ip4, ip6
        self.port_of = {}  # By host.
        lab.switch.ip(
            f"link add {name} type bridge mcast_snooping 0 forward_delay 0",
            f"link set {name} up",
        )

    def plug(self, host, interface="eth0", wire=None):
        """A cable from a new interface of the host to the switch. The address is that of the
        host's place among those of the network. A wire makes the cable slow."""
        number = len(self.port_of) + 1
        port = f"port{next(Network.ports)}"
        self.port_of[host] = port
        if wire is None:
            self.lab.switch.ip(
                f"link add {port} type veth peer name {interface} netns {host.name}"
            )
        else:
            inside = self.lab.tunnel_end(host, interface, TAP)
            outside = self.lab.tunnel_end(self.lab.switch, port, TAP)
            self.lab.pump.connect(inside, outside, wire)
        self.lab.switch.ip(f"link set {port} master {self.name} up")
        addresses = [a.format(number) for a in (self.ip4, self.ip6) if a]
        host.ip(
            *(f"addr add {address} dev {interface} {nodad(address)}" for address in addresses),
            f"link set {interface} multicast on up",
            *(["route add default dev " + interface] if self.ip4 and interface == "eth0" else []),
        )
        return addresses[0].partition("/")[0] if addresses else None

    def cut(self, host):
        """Pulls the cable: the host's interface has no carrier."""
        self.lab.switch.ip(f"link set {self.port_of[host]} down")

    def heal(self, host):
        self.lab.switch.ip(f"link set {self.port_of[host]} up")

    def split(self, *hosts):
        """The switch falls apart; these hosts are on the other half. No interface goes down."""
        if f"{self.name}-b" not in run("ip", "-n", self.lab.switch.name, "-br", "link"):
            self.lab.switch.ip(
                f"link add {self.name}-b type bridge mcast_snooping 0 forward_delay 0",
                f"link set {self.name}-b up",
            )
        self.lab.switch.ip(*(f"link set {self.port_of[h]} master {self.name}-b" for h in hosts))

    def join(self):
        self.lab.switch.ip(*(f"link set {p} master {self.name}" for p in self.port_of.values()))

    def drops_multicast(self):
        """As access points and managed switches do; ARP and neighbour discovery still work."""
        self.lab.switch.nft(
            "table bridge quiet { chain forward { type filter hook forward priority 0;"
            " ip daddr 224.0.0.0/4 drop; ip6 daddr ff00::/8 udp dport 5353 drop; } }"
        )

    def drops_multicast_from(self, host):
        """One way only: the others do not hear this host, it hears them."""
        self.lab.switch.nft(
            "table bridge oneway { chain forward { type filter hook forward priority 0;"
            f" iifname {self.port_of[host]} ip daddr 224.0.0.0/4 drop;"
            f" iifname {self.port_of[host]} ip6 daddr ff00::/8 udp dport 5353 drop; }} }}"
        )


def nodad(address):
    return "nodad" if ":" in address else ""


class Lab:
    """Removed by close(), whatever has happened in it."""

    numbers = itertools.count(1)

    def __init__(self):
        remove_left_over()
        self.name = f"{PREFIX}-{os.getpid()}-{next(Lab.numbers)}"
        self.hosts, self.all_hosts, self.tunnels = [], [], []
        self.pump = wires.Pump()
        self.switch = self.new_host("switch")

    def new_host(self, label):
        host = Host(self, label)
        self.all_hosts.append(host)
        return host

    def network(self, name="lan", **numbering):
        return Network(self, name, **numbering)

    def host(self, *networks):
        """A machine with eth0, eth1 ... on these networks."""
        host = self.new_host(f"h{len(self.hosts) + 1}")
        for index, network in enumerate(networks):
            network.plug(host, f"eth{index}")
        self.hosts.append(host)
        return host

    def tunnel_end(self, host, name, kind):
        """A descriptor for the packets of a new interface of the host."""
        with host.entered():
            end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            fcntl.ioctl(end, 0x400454CA, struct.pack("16sH22x", name.encode(), kind | 0x1000))
        self.tunnels.append(end)
        return end

    def close(self):
        self.pump.stop()
        for end in self.tunnels:
            os.close(end)
        self.tunnels.clear()
        while self.all_hosts:
            remove_namespace(self.all_hosts.pop().name)
