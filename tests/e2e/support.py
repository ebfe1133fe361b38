"""What the end-to-end tests are made of: nodes (real processes of the program), the places where
they run (this machine, or a netlab host), and waiting for what they say of themselves."""
import contextlib
import ctypes
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time

import httpx
import openai

SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = pathlib.Path(os.environ.get("EXO_PROGRAM", SOURCE / "build" / "exo"))
MODEL_FILE = SOURCE / ".deps" / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL = "smollm2-135m-instruct"
NETLAB = pathlib.Path(os.environ.get("EXO_NETLAB", SOURCE.parent / "shared" / "tools" / "netlab"))

QUESTION = [{"role": "user", "content": "Tell me the capital of France."}]
LONG_STORY = [{"role": "user", "content": "Write a very long story about a river and its people."}]

START_S = 30  # A node on a loaded machine, from its start to its first answer.
JOIN_S = 10  # A node that was met, until it can be given work.
LOAD_S = 90  # A small model, from the wish to the first token.


def wait_for(what, condition, seconds, every=0.05):
    """Returns the first true value of `condition`; an exception that it raises counts as false."""
    deadline = time.monotonic() + seconds
    last = None
    while time.monotonic() < deadline:
        try:
            last = condition()
            if last:
                return last
        except (httpx.HTTPError, OSError, KeyError) as error:
            last = error
        time.sleep(every)
    raise AssertionError(f"{what}: not within {seconds} s; last: {last!r}")


# ---- places


class ThisMachine:
    prefix = ()  # Of a command that is to run there.
    variables = {}  # That it needs in its environment.

    @contextlib.contextmanager
    def entered(self):
        yield


class LabHost:
    """A network namespace. A thread that has entered it opens its sockets there."""

    def __init__(self, lab, number):
        self.name = f"{lab}{number}"
        self.address = f"10.77.0.{number}"
        self.prefix = (str(NETLAB), "exec", str(number))
        self.variables = {"NETLAB": lab}

    @contextlib.contextmanager
    def entered(self):
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{self.name}", os.O_RDONLY)
        try:
            set_namespace(there)
            yield
        finally:
            set_namespace(home)
            os.close(there)
            os.close(home)


def set_namespace(descriptor):
    network = 0x40000000  # CLONE_NEWNET
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, network) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Lab:
    """Hosts on a bridge of our own, made and removed by netlab."""

    numbers = itertools.count()

    def __init__(self, hosts_count):
        # Unique on this machine, and short: it becomes part of the names of network interfaces.
        self.name = f"x{os.getpid() % 100000}{next(Lab.numbers) % 100}h"
        self.hosts = [LabHost(self.name, number + 1) for number in range(hosts_count)]
        self.run("up", str(hosts_count))

    def run(self, *arguments):
        environment = dict(os.environ, NETLAB=self.name)
        done = subprocess.run(
            [NETLAB, *arguments], env=environment, capture_output=True, text=True, timeout=60
        )
        if done.returncode != 0:
            raise OSError(f"netlab {' '.join(arguments)}: {done.stderr.strip()}")

    def cut(self, host):
        self.run("cut", host.prefix[2])

    def down(self):
        self.run("down")


def why_no_lab():
    """The reason why netlab hosts cannot be made here, or None."""
    if not NETLAB.exists():
        return f"no netlab at {NETLAB} (EXO_NETLAB names another)"
    if os.geteuid() != 0:
        return "netlab needs root"
    if shutil.which("ip") is None:
        return "netlab needs iproute2"
    name = f"probe{os.getpid()}"
    probe = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if probe.returncode != 0:
        return f"no network namespaces here: {probe.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


# ---- processes


def run_exo(*words, home=None, host=None, given="", seconds=START_S):
    """Runs `exo WORDS` to its end; for those that end by themselves."""
    place = host or ThisMachine()
    variables = {"PATH": os.environ["PATH"]} | place.variables
    if home is not None:
        variables["EXO_HOME"] = str(home)
    return subprocess.run(
        [*place.prefix, str(PROGRAM), *words],
        env=variables,
        input=given,
        capture_output=True,
        text=True,
        timeout=seconds,
    )


def children_of(pid):
    """All processes below `pid`, as (pid, start time): a pair that is never used again."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = stat_of(int(entry.name))
    found, wanted = [], {pid}
    while wanted:
        below = {child for child, (parent, _) in parents.items() if parent in wanted}
        found += [(child, parents[child][1]) for child in below]
        wanted = below
    return sorted(found)


def stat_of(pid):
    """Parent and start time of a process."""
    # The name, in parentheses, may hold spaces: the fields are counted after it.
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1]), int(fields[19])


def is_alive(process):
    pid, start = process
    with contextlib.suppress(OSError):
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return stat_of(pid)[1] == start and state != "Z"
    return False


class Node:
    """One `exo` process with its own EXO_HOME; `home` may be that of an earlier node."""

    def __init__(self, home, *flags, host=None, environment=None, models=True):
        self.home = pathlib.Path(home)
        self.host = host or ThisMachine()
        if models:
            give_model(self.home)
        self.log_path = self.home / f"output-{time.monotonic_ns()}.log"
        self.log_file = open(self.log_path, "wb")
        variables = {k: v for k, v in os.environ.items() if not k.startswith("EXO_")}
        variables |= {"EXO_HOME": str(self.home)} | (environment or {}) | self.host.variables
        self.process = subprocess.Popen(
            [*self.host.prefix, str(PROGRAM), *flags],
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=self.log_file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.seen_children = set()
        self._url = None
        self._id = None

    # -- what it says

    def log(self):
        return self.log_path.read_text(errors="replace")

    @property
    def url(self):
        """The address of its API, as it prints it."""
        if self._url is None:
            self._url = wait_for("the node prints the URL of its API", self.printed_url, START_S)
        return self._url

    def printed_url(self):
        if self.process.poll() is not None:
            raise AssertionError(f"exo ended with {self.process.returncode}:\n{self.log()}")
        found = re.search(r"http://(?:[\d.]+|\[[0-9a-f:]+\]):\d+", self.log())
        return found and found[0]

    def http(self, method, path, timeout=20, **options):
        # A proxy of the environment has no business between a node and its own machine.
        with self.host.entered(), httpx.Client(trust_env=False, timeout=timeout) as client:
            return client.request(method, self.url + path, **options)

    def get(self, path, **options):
        response = self.http("GET", path, **options)
        response.raise_for_status()
        return response.json()

    def state(self):
        return self.get("/state")

    def is_up(self):
        return self.get("/node_id")

    @property
    def id(self):
        if self._id is None:
            self._id = wait_for("the node tells its id", self.is_up, START_S)
        return self._id

    def openai(self, timeout=120):
        """The real client; use it inside `with node.host.entered()`."""
        return openai.OpenAI(
            base_url=self.url + "/v1",
            api_key="none",
            max_retries=0,
            http_client=httpx.Client(trust_env=False, timeout=timeout),
        )

    def children(self):
        found = children_of(self.process.pid)
        self.seen_children.update(found)
        return found

    def runners(self):
        """Process ids of its runners: children that were started as `exo runner` for a rank."""
        return [pid for pid, _ in self.children() if b"\0--ipc-fd\0" in arguments_of(pid)]

    # -- what is asked of it

    def place(self, sharding="Pipeline", min_nodes=1, model=MODEL):
        body = {
            "model_id": model,
            "sharding": sharding,
            "instance_meta": "MlxRing",
            "min_nodes": min_nodes,
        }
        # A node that has just been met is "still joining" for a moment: a user would ask again.
        answers = []

        def answered():
            answers.append(self.http("POST", "/place_instance", json=body))
            return "still joining" not in answers[-1].text

        wait_for("nodes have joined", answered, JOIN_S, every=0.2)
        assert answers[-1].status_code == 200, answers[-1].text
        return answers[-1].json()["instance_id"]

    def wait_ready(self, instance_id, seconds=LOAD_S):
        return wait_for("every runner is ready", lambda: self.is_ready(instance_id), seconds)

    def is_ready(self, instance_id):
        state = self.state()
        runners = runners_of(state, instance_id)
        failed = [r for r in runners if "RunnerFailed" in state["runners"].get(r, {})]
        assert not failed, state["runners"]
        kinds = [next(iter(state["runners"].get(r, {"": {}}))) for r in runners]
        return bool(kinds) and all(kind in ("RunnerReady", "RunnerRunning") for kind in kinds)

    def delete(self, instance_id):
        response = self.http("DELETE", f"/instance/{instance_id}")
        assert response.status_code == 200, response.text
        wait_for("the instance is gone", lambda: instance_id not in self.state()["instances"], 20)

    def ask(self, messages=QUESTION, **options):
        """One streamed answer, as text."""
        return "".join(self.stream(messages, **options))

    def stream(self, messages=QUESTION, model=MODEL, temperature=0, **options):
        with self.host.entered(), self.openai() as client:
            chunks = client.chat.completions.create(
                model=model, messages=messages, temperature=temperature, stream=True, **options
            )
            for chunk in chunks:
                if chunk.choices and chunk.choices[0].delta.content:
                    yield chunk.choices[0].delta.content

    # -- its end

    def stop(self):
        """Ends it and all that it started, whatever state they are in."""
        if self.process.poll() is None:
            self.children()
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(5)
        for child in self.seen_children:
            if is_alive(child):
                os.kill(child[0], signal.SIGKILL)
        self.log_file.close()


def arguments_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def give_model(home):
    """Puts the demo model into a node's models directory, without a copy where that can be."""
    models = home / "models"
    models.mkdir(parents=True, exist_ok=True)
    target = models / MODEL_FILE.name
    if target.exists():
        return
    try:
        os.link(MODEL_FILE, target)
    except OSError:
        shutil.copyfile(MODEL_FILE, target)


# ---- reading the state


def document_of(state, instance_id):
    """What is inside the tag: {"MlxRingInstance": {...}}."""
    return next(iter(state["instances"][instance_id].values()))


def runners_of(state, instance_id):
    if instance_id not in state["instances"]:
        return []
    return list(document_of(state, instance_id)["shardAssignments"]["nodeToRunner"].values())


def nodes_of(state, instance_id):
    return set(document_of(state, instance_id)["shardAssignments"]["nodeToRunner"])


class Streaming(threading.Thread):
    """A streamed chat in the background: the pieces that came, and how it ended."""

    def __init__(self, node, messages=LONG_STORY, **options):
        super().__init__(daemon=True)
        self.node, self.messages, self.options = node, messages, options
        self.pieces, self.error, self.ended_at = [], None, None
        self.start()

    def run(self):
        try:
            for piece in self.node.stream(self.messages, **self.options):
                self.pieces.append(piece)
        except Exception as error:  # noqa: BLE001: whatever it is, the test judges it.
            self.error = error
        self.ended_at = time.monotonic()

    def wait_pieces(self, count=5, seconds=LOAD_S):
        wait_for(
            "the stream runs", lambda: len(self.pieces) >= count or self.ended_at, seconds
        )
        assert self.error is None and self.ended_at is None, (self.error, self.pieces)
