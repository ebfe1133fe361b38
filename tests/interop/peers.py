"""The peers of the matrix: how each foreign one is built, and a running one with what it says.

Sources come from ../shared/interop and are copied to the build folder; what is built there stays
for the next run, and crates, modules and packages come from the caches of whoever runs this."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import subprocess
import threading

HERE = pathlib.Path(__file__).resolve().parent
# A minute alone with 2 cores; ten on a machine that builds other things at the same time.
BUILD_TIMEOUT_S = 700
LISTEN_TIMEOUT_S = 40
# Installers put compilers there, and not everybody has them in PATH.
TOOL_FOLDERS = ("~/.cargo/bin", "/root/.cargo/bin", "/usr/local/cargo/bin", "/usr/local/go/bin",
                "/usr/lib/go/bin", "/usr/local/bin", "/opt/node/bin")


class Skip(Exception):
    """Why nothing can be said about a foreign peer here."""


class Broken(Exception):
    """Why a case cannot go on; its peer is at fault."""


# --- Building ---


def find_tool(name, hint):
    found = shutil.which(name)
    for folder in TOOL_FOLDERS:
        found = found or shutil.which(name, path=os.path.expanduser(folder))
    if not found:
        raise Skip(f"no {name} on this machine: {hint}")
    return pathlib.Path(found)


def rust_environment(cargo):
    """rustup's cargo needs the folder beside its own, which $HOME need not be."""
    environment = dict(os.environ)
    home = cargo.parent.parent
    if home.name == ".cargo":
        for name, folder in (("CARGO_HOME", home), ("RUSTUP_HOME", home.parent / ".rustup")):
            if folder.is_dir() and os.access(folder, os.W_OK):
                environment.setdefault(name, str(folder))
    return environment


def copy_sources(source, folder):
    """Times are kept, so that only what has changed is built again."""
    if not source.is_dir():
        raise Skip(f"no sources: {source} is not there")
    shutil.copytree(source, folder, dirs_exist_ok=True, copy_function=shutil.copy2,
                    ignore=shutil.ignore_patterns("node_modules", "target"))
    for path in [folder, *folder.iterdir()]:
        path.chmod(path.stat().st_mode | 0o200)


def run_build(command, folder, environment):
    """Nicely: tests with real clocks may be running beside it."""
    log = folder / "build.log"
    what = f"{command[0].name} {command[1]}"
    try:
        with log.open("w") as output:
            result = subprocess.run(
                ["nice", "-n", "5", *map(str, command)], cwd=folder, env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                timeout=BUILD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise Skip(f"{what} took more than {BUILD_TIMEOUT_S} s; see {log}") from None
    if result.returncode != 0:
        tail = " | ".join(log.read_text(errors="replace").splitlines()[-4:])
        raise Skip(f"{what} failed: {tail}")


def build_rust(folder):
    cargo = find_tool("cargo", "install Rust")
    environment = rust_environment(cargo)
    environment["CARGO_TARGET_DIR"] = str(folder / "target")
    run_build([cargo, "build"], folder, environment)
    return [folder / "target" / "debug" / "rust-peer"]


def build_js(folder):
    npm = find_tool("npm", "install Node.js 20 or newer")
    node = find_tool("node", "install Node.js 20 or newer")
    shutil.copy2(HERE / "js_guest.mjs", folder)
    wanted = (folder / "package-lock.json").read_bytes()
    installed = folder / "node_modules" / "installed-lock.json"
    if not installed.exists() or installed.read_bytes() != wanted:
        run_build([npm, "ci", "--no-audit", "--no-fund"], folder, dict(os.environ))
        installed.write_bytes(wanted)
    return [node, folder / "peer.mjs"]


def build_go(folder):
    go = find_tool("go", "install Go")
    environment = dict(os.environ, GOTOOLCHAIN="local")
    run_build([go, "build", "-trimpath", "-o", "go-peer", "."], folder, environment)
    return [folder / "go-peer"]


BUILDERS = {"rust": build_rust, "js": build_js, "go": build_go}


def build(implementation, shared, work):
    """The command of a foreign peer. Raises Skip. Several tests may want it at the same time."""
    folder = work / implementation
    folder.mkdir(parents=True, exist_ok=True)
    with (work / f"{implementation}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy_sources(shared / f"{implementation}-peer", folder)
        return BUILDERS[implementation](folder)


# --- Running ---


class Peer:
    """A process and the events that it prints."""

    def __init__(self, command, log):
        self.log = log
        self.events = []
        self.ended = False
        self.changed = threading.Condition()
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=errors, text=True, errors="replace")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        with self.log.with_suffix(".jsonl").open("w") as copy:
            for line in self.process.stdout:
                copy.write(line)
                if line.startswith("{"):
                    with self.changed:
                        self.events.append(json.loads(line))
                        self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def kill(self):
        """As a crash: no goodbye."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()

    def named(self, name, **fields):
        with self.changed:
            return [event for event in self.events
                    if event["event"] == name and fields.items() <= event.items()]

    def wait(self, condition, timeout_s):
        """True once `condition()` is; false at the time-out, or once the peer has ended."""
        with self.changed:
            self.changed.wait_for(lambda: condition() or self.ended, timeout_s)
            return bool(condition())

    def has(self, name, timeout_s, count=1, **fields):
        return self.wait(lambda: len(self.named(name, **fields)) >= count, timeout_s)

    def address(self):
        """Where it listens, once it does."""
        if not self.has("listening", LISTEN_TIMEOUT_S):
            raise Broken(f"{self.log.stem} does not listen")
        return self.named("listening")[0]["address"]

    def id(self):
        return self.named("start")[0]["peer"]

    def texts(self, topic):
        return [event["data"] for event in self.named("message", topic=topic)]
