"""The rows of the matrix. A case gets a Cell: a foreign peer and ours, one of which dials. It
starts peers, returns what it has found wrong (nothing, if all is as it must be), and ends as soon
as it knows: limits of time are for what fails."""

import itertools
import os
import signal
import socket
import subprocess
import time

import peers

LOCAL = "/ip4/127.0.0.1/tcp/0"
MESSAGES = 3
LARGE_MESSAGES = 2
SECONDS = 60  # For anything that takes far less; other tests run on the same cores.
# Both sides hang up after three pings (each 2.5 s) without an answer; and js resets ping streams
# that are older than 10 s, which must not count against it.
STAY_S = 13
MEBIBYTE = 1 << 20
# RPCs of 8 MiB are the most that anybody takes; around the data there are names and keys.
LARGEST = 8 * MEBIBYTE - 250
# js takes 8 MiB, but the length prefixes that it writes go to 4 MiB.
LARGEST_OF_THEIRS = {"js": 4 * MEBIBYTE - 250}
# What waits 5 s for its turn is given up (specs/libp2p.md 9), and a Rust peer that is built for
# quick building takes seconds for 8 MiB.
LARGEST_EVERY_MS = 6000
UNKNOWN = "/exo/unknown/1.0.0"
# Both ends give up an upgrade after 10 s, when a wrong key makes the other wait for more bytes.
REFUSED_WITHIN_S = 20
NOTICED_S = 30
# js and go let peers into their meshes at a heartbeat, once a second.
MESH_S = 2
FIRST_ID = "12D3KooWK99VoVxNE7XzyBwXEzW7xhK7Gpv85r9F3V3fyKSUKPH5"  # Of --seed 1.


class Cell:
    """Who dials whom in one case, and the peers that run for it."""

    def __init__(self, commands, foreign, ours_dials, logs):
        self.commands = commands
        self.foreign = foreign
        self.dialer, self.listener = ("exo", foreign) if ours_dials else (foreign, "exo")
        self.ours_dials = ours_dials
        self.logs = logs
        self.running = []

    def start(self, implementation, name, *flags, host=None):
        """`host`: a network namespace."""
        inside = ["ip", "netns", "exec", host] if host else []
        command = [*inside, *self.commands[implementation], "--run-s", "300", *map(str, flags)]
        self.logs.mkdir(parents=True, exist_ok=True)
        peer = peers.Peer(command, self.logs / f"{name}-{implementation}.log")
        self.running.append(peer)
        return peer

    def start_pair(self, listener_flags=(), dialer_flags=()):
        listener = self.start(self.listener, "listener", "--listen", LOCAL, "--seed", 1,
                              *listener_flags)
        dialer = self.start(self.dialer, "dialer", "--dial", listener.address(), "--seed", 2,
                            *dialer_flags)
        return listener, dialer

    def ours_and_theirs(self, listener, dialer):
        return (dialer, listener) if self.ours_dials else (listener, dialer)

    def stop(self):
        for peer in self.running:
            peer.kill()


def publishing(text, *flags):
    return ["--topic", "a", "--topic", "b", "--publish", text, "--count", MESSAGES, *flags]


ECHOING = ["--topic", "a", "--topic", "b", "--echo-topic", "b"]


def wrong_texts(name, peer, topic, wanted):
    """Each message once, and nothing else on its topic."""
    peer.wait(lambda: len(peer.texts(topic)) >= len(wanted), SECONDS)
    got = peer.texts(topic)
    return [] if sorted(got) == sorted(wanted) else [
        f"{name} has {got} on '{topic}' instead of {wanted}"]


def wrong_exchange(listener, dialer):
    """Three messages of the dialer and their echoes."""
    sent = [f"hello {i}" for i in range(MESSAGES)]
    return (wrong_texts("the listener", listener, "a", sent)
            or wrong_texts("the dialer", dialer, "b", [f"echo:{text}" for text in sent]))


def wrong_pings(theirs, wanted):
    """The foreign peer says what became of its pings; of ours, the connection that stays."""
    theirs.wait(lambda: sum("rtt_ms" in event for event in theirs.named("ping")) >= wanted,
                SECONDS)
    answered = sum("rtt_ms" in event for event in theirs.named("ping"))
    failed = [event["error"] for event in theirs.named("ping") if "error" in event]
    if answered < wanted or failed:
        return [f"{answered} of their pings were answered, {wanted} must be; errors: {failed}"]
    return []


def wrong_identities(ours, theirs):
    wrong = []
    if not ours.has("identify", SECONDS):
        wrong.append("we do not know who they are")
    us = {"agent": "exo-interop-peer/1"}
    theirs.has("identify", SECONDS, **us)
    protocols = [name for event in theirs.named("identify", **us) for name in event["protocols"]]
    for protocol in ("/ipfs/ping/1.0.0", "/meshsub/1.2.0"):
        if protocol not in protocols:
            wrong.append(f"they do not know that we speak {protocol}")
    return wrong


def wrong_connections(*running):
    """Nobody may have lost one."""
    lost = [f"{peer.log.stem} lost a connection" for peer in running if peer.named("disconnected")]
    return lost + [f"{peer.log.stem} has ended" for peer in running if peer.ended]


# --- Messages ---


def messages(cell):
    listener, dialer = cell.start_pair(ECHOING, publishing("hello"))
    wrong = wrong_exchange(listener, dialer)
    if wrong:
        return wrong
    ours, theirs = cell.ours_and_theirs(listener, dialer)
    time.sleep(STAY_S)
    return (wrong_pings(theirs, wanted=4) + wrong_identities(ours, theirs)
            + wrong_connections(ours, theirs))


def messages_without_psk(cell):
    listener, dialer = cell.start_pair(["--no-psk", *ECHOING],
                                       ["--no-psk", *publishing("hello")])
    wrong = wrong_exchange(listener, dialer)
    if wrong:
        return wrong
    ours, theirs = cell.ours_and_theirs(listener, dialer)
    return (wrong_pings(theirs, wanted=1) + wrong_identities(ours, theirs)
            + wrong_connections(ours, theirs))


def large_messages(ours_size, theirs_sizes=None, every_ms=1000):
    """Each side publishes on a topic of its own, so that neither waits for the other."""
    def case(cell):
        theirs_size = (theirs_sizes or {}).get(cell.foreign, ours_size)
        sizes = (theirs_size, ours_size) if cell.ours_dials else (ours_size, theirs_size)
        topics = ("listener", "dialer")
        flags = [["--topic", topic, "--topic", other, "--publish", "hello", "--publish-size", size,
                  "--count", LARGE_MESSAGES, "--publish-every", every_ms]
                 for topic, other, size in zip(topics, reversed(topics), sizes)]
        listener, dialer = cell.start_pair(*flags)
        wrong = []
        for peer, topic, size in zip((dialer, listener), topics, sizes):
            peer.has("message", SECONDS, count=LARGE_MESSAGES, topic=topic)
            got = [event["bytes"] for event in peer.named("message", topic=topic)]
            if got != [size] * LARGE_MESSAGES:
                wrong.append(f"{peer.log.stem} got messages of {got} bytes, not "
                             f"{LARGE_MESSAGES} of {size}")
        return wrong + wrong_connections(listener, dialer)

    return case


# --- Three in a row ---


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wrong_row(cell, middle, ends):
    """A publishes and C echoes; both know B alone. `ends`: what A and C are. A comes last, to
    where C is known: what is published before is nobody's."""
    names = ["--topic", "a", "--topic", "b", "--seed", 3]
    slowly = publishing("hello", "--seed", 1, "--publish-every", 2000)
    if cell.dialer == middle:
        c = cell.start(ends[1], "c", "--listen", LOCAL, "--seed", 2, *ECHOING)
        a_address = f"/ip4/127.0.0.1/tcp/{free_port()}"
        b = cell.start(middle, "b", *names, "--retry-ms", 500, "--dial", c.address(),
                       "--dial", f"{a_address}/p2p/{FIRST_ID}")
        a_place = ["--listen", a_address]
    else:
        b = cell.start(middle, "b", "--listen", LOCAL, *names)
        c = cell.start(ends[1], "c", "--dial", b.address(), "--seed", 2, *ECHOING)
        a_place = ["--dial", b.address()]
    if not b.has("connected", SECONDS):
        return ["the first end of the row does not connect"]
    time.sleep(MESH_S)
    a = cell.start(ends[0], "a", *a_place, *slowly)
    wrong = wrong_exchange(c, a)
    for end in (a, c):
        if {event["peer"] for event in end.named("connected")} != {b.id()}:
            wrong.append(f"{end.log.stem} is not connected with the middle alone")
    return wrong


def through_them(cell):
    return wrong_row(cell, middle=cell.foreign, ends=("exo", "exo"))


def through_us(cell):
    other = "js" if "js" in cell.commands else cell.foreign
    return wrong_row(cell, middle="exo", ends=(cell.foreign, other))


# --- Peers that go ---


class Trio:
    """Ours, theirs, and a third peer that publishes by way of ours all the time."""

    def __init__(self, cell):
        self.cell = cell
        again = ["--topic", "a", "--retry-ms", 500]
        listener, dialer = cell.start_pair(again, again)
        self.ours, self.theirs = cell.ours_and_theirs(listener, dialer)
        self.our_address, self.their_address = self.ours.address(), self.theirs.address()
        self.third = cell.start(
            "exo", "third", "--seed", 3, *again, "--dial", self.our_address,
            "--publish", "tick", "--count", 100_000, "--publish-every", 200)

    def restart(self, whose):
        ours_dials = self.cell.ours_dials
        address, other, dials, seed, implementation = (
            (self.our_address, self.their_address, ours_dials, 2 if ours_dials else 1, "exo")
            if whose == "ours" else
            (self.their_address, self.our_address, not ours_dials, 1 if ours_dials else 2,
             self.cell.foreign))
        peer = self.cell.start(
            implementation, f"{whose}-again", "--listen", address.split("/p2p/")[0], "--seed",
            seed, "--topic", "a", "--retry-ms", 500, *(["--dial", other] if dials else []))
        setattr(self, whose, peer)

    def hears(self, peer, count=5):
        """More than it has heard until now."""
        before = len(peer.texts("a"))
        return peer.wait(lambda: len(peer.texts("a")) >= before + count, SECONDS)

    def wrong_gossip(self, when):
        return [f"{name} hears nothing {when}"
                for name, peer in (("ours", self.ours), ("theirs", self.theirs))
                if not self.hears(peer)]


def vanishes(cell):
    """Each end in turn is killed, is missed, and comes back."""
    trio = Trio(cell)
    wrong = trio.wrong_gossip("at first")
    if wrong:
        return wrong
    trio.theirs.kill()
    if not trio.ours.has("disconnected", NOTICED_S, peer=trio.theirs.id()):
        wrong.append("we do not notice that they are gone")
    if not trio.hears(trio.ours):
        wrong.append("with them, the others have gone silent")
    trio.restart("theirs")
    wrong += trio.wrong_gossip("after they are back")
    if wrong:
        return wrong
    trio.ours.kill()
    if not trio.theirs.has("disconnected", NOTICED_S, peer=trio.ours.id()):
        wrong.append("they do not notice that we are gone")
    trio.restart("ours")
    return wrong + trio.wrong_gossip("after we are back")


def freezes(cell):
    """A peer that keeps its connection and says nothing; only pings tell."""
    trio = Trio(cell)
    wrong = trio.wrong_gossip("at first")
    if wrong:
        return wrong
    trio.theirs.process.send_signal(signal.SIGSTOP)
    if not trio.ours.has("disconnected", NOTICED_S, peer=trio.theirs.id()):
        wrong.append("we do not notice that they are frozen")
    if not trio.hears(trio.ours):
        wrong.append("with them, the others have gone silent")
    trio.theirs.process.send_signal(signal.SIGCONT)
    return wrong + trio.wrong_gossip("after they have thawed")


# --- What must be refused ---


def refused(listener_flags, dialer_flags):
    def case(cell):
        listener, dialer = cell.start_pair(
            [*ECHOING, *listener_flags(cell)], [*publishing("secret"), *dialer_flags(cell)])
        ours, theirs = cell.ours_and_theirs(listener, dialer)

        def said():
            return (any(event["handshakes_failed"] for event in ours.named("counters"))
                    or theirs.named("dial_error") or theirs.named("incoming_error"))

        deadline = time.monotonic() + REFUSED_WITHIN_S
        while not said() and time.monotonic() < deadline:
            time.sleep(0.1)
        wrong = [] if said() else ["neither says that it has refused the other"]
        time.sleep(1)
        return wrong + [f"{peer.log.stem} took the other in" for peer in (listener, dialer)
                        if peer.named("connected") or peer.named("message")]

    return case


def wrong_injection(injector, receiver):
    """All of it has been sent, and nothing but the last message has been taken."""
    if not injector.has("injected", SECONDS):
        return [f"nothing was injected: {injector.named('inject_error')}"]
    wrong = wrong_texts(receiver.log.stem, receiver, "a", ["good"])
    time.sleep(1)  # Not all check signatures in order.
    return (wrong or wrong_texts(receiver.log.stem, receiver, "a", ["good"])
            ) + wrong_connections(injector, receiver)


def bad_signatures(cell):
    receives, injects = ["--topic", "a"], ["--inject", "a"]
    listener, dialer = cell.start_pair(*((receives, injects) if cell.ours_dials
                                         else (injects, receives)))
    ours, theirs = cell.ours_and_theirs(listener, dialer)
    return wrong_injection(ours, theirs)


def start_with_guest(cell):
    """Our peer and the misbehaving one of js."""
    guest = Cell({**cell.commands, "js": cell.commands["js guest"]}, "js", cell.ours_dials,
                 cell.logs)
    guest.running = cell.running
    return guest.ours_and_theirs(*guest.start_pair(["--topic", "a"], ["--topic", "a"]))


def bad_signatures_of_theirs(cell):
    ours, theirs = start_with_guest(cell)
    wrong = wrong_injection(theirs, ours)
    sent = theirs.named("injected")[0]["messages"] if theirs.named("injected") else 0
    if not ours.has("counters", SECONDS, messages_rejected=sent - 1):
        rejected = [event["messages_rejected"] for event in ours.named("counters")]
        wrong.append(f"we have counted {rejected} of {sent - 1} bad messages")
    return wrong


def unknown_protocol(cell):
    asks = ["--open", UNKNOWN]
    listener, dialer = cell.start_pair(
        [*ECHOING, *([] if cell.ours_dials else asks)],
        [*publishing("hello"), *(asks if cell.ours_dials else [])])
    ours, theirs = cell.ours_and_theirs(listener, dialer)
    wrong = [] if ours.has("refused", SECONDS, code="protocol") else [
        f"not refused: {ours.named('opened') or ours.named('refused')}"]
    return wrong + wrong_exchange(listener, dialer) + wrong_connections(ours, theirs)


def unknown_protocol_of_theirs(cell):
    ours, theirs = start_with_guest(cell)
    wrong = [] if theirs.has("refused", SECONDS) else [f"not refused: {theirs.named('opened')}"]
    if not ours.has("message", SECONDS, data="good"):
        wrong.append("the connection is of no use any more")
    return wrong + wrong_connections(ours, theirs)


# --- Discovery ---


class Wire:
    """Two network namespaces with a cable between them, and nothing else."""

    made = itertools.count()

    def __init__(self):
        if os.geteuid() != 0:
            raise peers.Skip("needs root, for network namespaces")
        number = next(self.made)
        self.hosts = [f"interop-{os.getpid()}-{number}{side}" for side in "ab"]

    def __enter__(self):
        try:
            for host in self.hosts:
                run_ip("netns", "add", host)
            first, second = self.hosts
            run_ip("-n", first, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0",
                   "netns", second)
            for number, host in enumerate(self.hosts, 1):
                run_ip("-n", host, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
                run_ip("-n", host, "link", "set", "lo", "up")
                run_ip("-n", host, "link", "set", "eth0", "up", "multicast", "on")
                run_ip("-n", host, "route", "add", "224.0.0.0/4", "dev", "eth0")
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            raise peers.Skip(f"no network namespaces here: {error}") from None
        return self.hosts

    def __exit__(self, *_):
        for host in self.hosts:
            subprocess.run(["ip", "netns", "del", host], stderr=subprocess.DEVNULL, check=False)


def run_ip(*words):
    subprocess.run(["ip", *words], check=True, stdin=subprocess.DEVNULL)


def mdns(cell):
    """Nobody is told an address. The second comes to a network where the first has settled."""
    def start(implementation, name, host, *flags):
        verbose = ["-v"] if implementation == "exo" else []
        return cell.start(implementation, name, "--listen", "/ip4/0.0.0.0/tcp/0", "--mdns", "on",
                          *verbose, *flags, host=host)

    with Wire() as (first_host, second_host):
        first = start(cell.listener, "first", first_host, "--seed", 1, *ECHOING)
        first.address()
        time.sleep(1)
        second = start(cell.dialer, "second", second_host, "--seed", 2, *publishing("hello"))
        wrong = wrong_exchange(first, second)
        ours, theirs = cell.ours_and_theirs(first, second)
        if f"discovered {theirs.id()}" not in ours.log.read_text():
            wrong.append("we have not found them")
        # go takes nobody's answers but those that have an SRV record (specs/libp2p.md 10).
        if cell.foreign != "go" and not theirs.has("discovered", SECONDS, peer=ours.id()):
            wrong.append("they have not found us")
        cell.stop()
        return wrong


def of_ours(*flags):
    """Flags for our side only."""
    return (lambda cell: [] if cell.ours_dials else flags), (
        lambda cell: flags if cell.ours_dials else [])


def of_theirs(*flags):
    return (lambda cell: flags if cell.ours_dials else []), (
        lambda cell: [] if cell.ours_dials else flags)


CASES = {
    "messages, pings, identify": messages,
    "the same without a PSK": messages_without_psk,
    "1 MiB messages": large_messages(MEBIBYTE),
    "8 MiB messages": large_messages(LARGEST, LARGEST_OF_THEIRS, LARGEST_EVERY_MS),
    "gossip through them": through_them,
    "gossip through us": through_us,
    "a peer vanishes": vanishes,
    "a peer freezes": freezes,
    "wrong PSK": refused(*of_ours("--namespace", "other")),
    "PSK on our side only": refused(*of_theirs("--no-psk")),
    "PSK on their side only": refused(*of_ours("--no-psk")),
    "bad signatures, ours": bad_signatures,
    "bad signatures, theirs": bad_signatures_of_theirs,
    "unknown protocol, ours": unknown_protocol,
    "unknown protocol, theirs": unknown_protocol_of_theirs,
    "mDNS": mdns,
}
# The other foreign peers have no flag to misbehave; js_guest.mjs is made of the packages of js.
ONLY_JS = ("bad signatures, theirs", "unknown protocol, theirs")
