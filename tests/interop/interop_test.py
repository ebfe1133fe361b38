#!/usr/bin/env python3
"""Our libp2p stack against rust-libp2p, configured as exo's own was: builds the Rust peer of
../shared/interop, sets it against exo_interop_peer, and prints what worked.

usage: interop_test.py --exo-peer PROGRAM --work FOLDER [--shared FOLDER] [--rust-peer PROGRAM]
                       [--cases NAME,NAME]

A pair: the listener subscribes to `a` and echoes on `b`; the dialer publishes three messages on `a`
and waits for their three echoes on `b`. So messages go both ways, and each one was signed and
checked. All traffic stays on 127.0.0.1, but for mDNS, which is local multicast.

Exit status: 0 all went as it must, 1 something did not, 77 the Rust peer is not to be had here (the
reason is printed, and ctest reports the test as skipped)."""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

SKIPPED = 77
BUILD_TIMEOUT_S = 700  # A minute alone, several on a busy machine.
LISTEN_TIMEOUT_S = 20
MESSAGES = 3
LOCAL = "/ip4/127.0.0.1/tcp/0"
# Longer than the three unanswered pings (2.5 s each) after which either side hangs up.
STAY_MS = 9000


class Skip(Exception):
    """Why nothing can be said about the Rust peer here."""


# --- The Rust peer ---


def build_rust_peer(shared, work):
    source = shared / "rust-peer"
    if not source.is_dir():
        raise Skip(f"no sources of the Rust peer: {source} is not there")
    if not shutil.which("cargo"):
        raise Skip("no cargo on this machine: install Rust, or name a peer with --rust-peer")
    copy = work / "rust-peer"
    # Times are kept, so that cargo builds again only what has changed.
    shutil.copytree(source, copy, dirs_exist_ok=True, copy_function=shutil.copy2)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(work / "target")}
    log = work / "cargo.log"
    print("building the Rust peer", flush=True)
    try:
        with log.open("w") as output:
            result = subprocess.run(
                ["cargo", "build"], cwd=copy, env=environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, timeout=BUILD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise Skip(f"cargo build took more than {BUILD_TIMEOUT_S} s; see {log}") from None
    if result.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
        raise Skip(f"cargo build failed:\n{tail}")
    return work / "target" / "debug" / "rust-peer"


# --- A running peer ---


class Peer:
    """A process and the events that it prints."""

    def __init__(self, program, flags, log):
        self.events = []
        self.changed = threading.Condition()
        self.log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [str(program), *flags], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=errors, text=True, errors="replace")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def read(self):
        with self.log.with_suffix(".jsonl").open("w") as copy:
            for line in self.process.stdout:
                copy.write(line)
                if line.startswith("{"):
                    with self.changed:
                        self.events.append(json.loads(line))
                        self.changed.notify_all()

    def wait_for(self, name, timeout_s):
        """The first event of this name, or None."""
        def find():
            return next((event for event in self.events if event["event"] == name), None)
        with self.changed:
            self.changed.wait_for(lambda: find() or self.process.poll() is not None, timeout_s)
            return find()

    def wait_for_end(self, timeout_s):
        """The exit status, or None."""
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        self.reader.join()
        return status

    def named(self, name):
        with self.changed:
            return [event for event in self.events if event["event"] == name]

    def count(self, name, **fields):
        return sum(fields.items() <= event.items() for event in self.named(name))


# --- The cases: each returns what it has found wrong, and what there is to say ---


def exchange(pair, listener_flags=(), dialer_flags=(), seconds=40):
    """Both must end by themselves with all their messages. Returns (wrong, listener, dialer)."""
    expect = ["--expect", str(MESSAGES), "--run-s", str(seconds)]
    listener = pair.start("listener", [
        "--listen", LOCAL, "--seed", "1", "--topic", "a", "--echo-topic", "b", *expect,
        *listener_flags])
    listening = listener.wait_for("listening", LISTEN_TIMEOUT_S)
    if not listening:
        return ["the listener does not listen"], listener, None
    dialer = pair.start("dialer", [
        "--dial", listening["address"], "--seed", "2", "--topic", "a", "--topic", "b",
        "--publish", "hello", "--count", str(MESSAGES), *expect, *dialer_flags])
    wrong = []
    for name, peer in (("listener", listener), ("dialer", dialer)):
        status = peer.wait_for_end(seconds + 20)
        if status != 0:
            wrong.append(f"the {name} ended with {status}")
    for name, peer, topic in (("listener", listener, "a"), ("dialer", dialer, "b")):
        got = peer.count("message", topic=topic)
        if got != MESSAGES:
            wrong.append(f"the {name} got {got} of {MESSAGES} messages")
    return wrong, listener, dialer


def case_messages_and_pings(pair):
    # Both stay after their messages, so that pings decide whether the connection lives.
    stay = ["--linger-ms", str(STAY_MS)]
    longer = ["--linger-ms", str(STAY_MS + 3000)]
    wrong, listener, dialer = exchange(pair, longer, stay)
    if not dialer:
        return wrong, ""
    # The dialer's own end, STAY_MS after its last message, disconnects as well.
    last_message = max((event["t_ms"] for event in dialer.named("message")), default=0)
    if any(event["t_ms"] < last_message + STAY_MS - 500 for event in dialer.named("disconnected")):
        wrong.append("the connection did not last")
    rust = listener if pair.listener == "rust" else dialer
    pings = sum("rtt_ms" in event for event in rust.named("ping"))
    failures = sum("error" in event for event in rust.named("ping"))
    if pings < 3 or failures:
        wrong.append(f"{failures} of rust's pings failed, {pings} were answered")
    for name, peer in (("listener", listener), ("dialer", dialer)):
        if not peer.count("identify"):
            wrong.append(f"the {name} has not identified the other")
    return wrong, f"{pings} pings of rust answered, and ours for {STAY_MS // 1000} s"


def exchange_of_size(pair, size):
    linger = ["--linger-ms", "2000"]
    wrong, listener, dialer = exchange(pair, linger, ["--publish-size", str(size), *linger])
    if dialer and listener.count("message", topic="a", bytes=size) != MESSAGES:
        wrong.append(f"not all messages had {size} bytes")
    return wrong, f"{size} bytes each"


def case_large(pair):
    return exchange_of_size(pair, 200_000)


def case_several_megabytes(pair):
    return exchange_of_size(pair, 3_000_000)


def case_wrong_namespace(pair):
    seconds = 6
    listener = pair.start("listener", [
        "--listen", LOCAL, "--seed", "1", "--topic", "a", "--namespace", "one",
        "--run-s", str(seconds + 5)])
    listening = listener.wait_for("listening", LISTEN_TIMEOUT_S)
    if not listening:
        return ["the listener does not listen"], ""
    dialer = pair.start("dialer", [
        "--dial", listening["address"], "--seed", "2", "--topic", "a", "--namespace", "two",
        "--publish", "secret", "--run-s", str(seconds)])
    dialer.wait_for_end(seconds + 20)
    wrong = []
    for name, peer in (("listener", listener), ("dialer", dialer)):
        if peer.count("connected") or peer.count("message"):
            wrong.append(f"the {name} took the other in")
    return wrong, "refused"


def case_mdns(pair):
    """Nobody is told an address. The namespace is of this run alone."""
    namespace = f"interop-{os.getpid()}-{time.monotonic_ns()}"
    common = ["--listen", "/ip4/0.0.0.0/tcp/0", "--mdns", "on", "--namespace", namespace,
              "--expect", str(MESSAGES), "--run-s", "40", "--linger-ms", "2000"]
    first = pair.start("listener", [*common, "--seed", "1", "--topic", "a", "--echo-topic", "b"])
    if not first.wait_for("listening", LISTEN_TIMEOUT_S):
        return ["the first does not listen"], ""
    time.sleep(1)  # The second comes to a network where the first has settled.
    second = pair.start("dialer", [
        *common, "--seed", "2", "--topic", "a", "--topic", "b", "--publish", "hello",
        "--count", str(MESSAGES)])
    wrong = []
    for name, peer in (("first", first), ("second", second)):
        status = peer.wait_for_end(60)
        if status != 0:
            wrong.append(f"the {name} ended with {status}")
    return wrong, "found each other without an address"


CASES = {
    "messages-and-pings": case_messages_and_pings,
    "large": case_large,
    "several-megabytes": case_several_megabytes,
    "wrong-namespace": case_wrong_namespace,
    "mdns": case_mdns,
}


class Pair:
    """Who dials whom in one case, and the peers that are running."""

    def __init__(self, programs, listener, dialer, logs):
        self.programs = programs
        self.listener = listener
        self.dialer = dialer
        self.logs = logs
        self.peers = []

    def start(self, role, flags):
        implementation = getattr(self, role)
        log = self.logs / f"{role}-{implementation}.log"
        peer = Peer(self.programs[implementation], flags, log)
        self.peers.append(peer)
        return peer

    def stop(self):
        for peer in self.peers:
            peer.stop()


def has_network():
    """An interface other than loopback that is up: rust's mDNS uses no other."""
    for path in pathlib.Path("/sys/class/net").glob("*/flags"):
        flags = int(path.read_text(), 16)
        up, loopback, multicast = 0x1, 0x8, 0x1000
        if flags & up and flags & multicast and not flags & loopback:
            return True
    return False


def run_case(name, programs, listener, dialer, work):
    logs = work / "logs" / f"{name}-{dialer}-dials-{listener}"
    logs.mkdir(parents=True, exist_ok=True)
    pair = Pair(programs, listener, dialer, logs)
    began = time.monotonic()
    try:
        wrong, said = CASES[name](pair)
    finally:
        pair.stop()
    verdict = "FAIL" if wrong else "ok  "
    text = "; ".join(wrong) + f" (logs: {logs})" if wrong else said
    took = time.monotonic() - began
    print(f"{verdict} {name:19} {dialer:4} dials {listener:4} {text} [{took:.1f} s]", flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--exo-peer", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--shared", type=pathlib.Path, default=source.parent / "shared/interop")
    parser.add_argument("--rust-peer", type=pathlib.Path, help="do not build one")
    parser.add_argument("--cases", default=",".join(CASES))
    args = parser.parse_args()
    work = args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    try:
        rust_peer = args.rust_peer or build_rust_peer(args.shared, work)
    except Skip as reason:
        print(f"skipped: {reason}")
        return SKIPPED
    programs = {"exo": args.exo_peer.resolve(), "rust": rust_peer.resolve()}
    failed = 0
    for name in args.cases.split(","):
        if name == "mdns" and not has_network():
            print("skip mdns: no interface but loopback, and rust's mDNS uses no other")
            continue
        for listener, dialer in (("rust", "exo"), ("exo", "rust")):
            failed += not run_case(name, programs, listener, dialer, work)
    print(f"{failed} failed" if failed else "all as it must be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
