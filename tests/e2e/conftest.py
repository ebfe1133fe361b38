"""Fixtures, and what a failed test prints: the last lines of every node's log."""
import contextlib
import os
import pathlib
import uuid

import lab
import pytest
import support

LOG_LINES = 60


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    # tools/run_tests counts cases from these reports; one file for each program of ctest.
    folder = os.environ.get("EXO_TEST_REPORTS")
    if folder and config.args:
        name = pathlib.Path(config.args[0]).stem.removeprefix("test_")
        config.option.xmlpath = str(pathlib.Path(folder) / f"e2e_{name}.xml")


def pytest_sessionstart():
    for path in (support.PROGRAM, support.MODEL_FILE):
        if not path.exists():
            pytest.exit(f"{path} is missing: run 'make build' first", returncode=1)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for index, node in enumerate(Nodes.running):
            lines = node.log().splitlines()[-LOG_LINES:]
            report.sections.append((f"node {index} ({node.home})", "\n".join(lines)))


class Nodes:
    """Starts nodes and ends them, the last first."""

    running = []

    def __init__(self, folder):
        self.folder, self.own = folder, []
        # Other nodes of this machine's network, a developer's own perhaps, are none of ours.
        self.namespace = f"test-{uuid.uuid4()}"

    def home(self):
        path = self.folder / f"home{len(self.own)}"
        path.mkdir(exist_ok=True)
        return path

    def start(self, *flags, home=None, **options):
        """A node on a free port and in a namespace of its test; without either on a lab host."""
        if "host" not in options:
            flags = ("--api-port", "0", *flags) if "--no-api" not in flags else flags
            flags = ("--namespace", self.namespace, *flags) if "--namespace" not in flags else flags
        node = support.Node(home or self.home(), *flags, **options)
        self.own.append(node)
        Nodes.running.append(node)
        return node

    def stop(self):
        while self.own:
            node = self.own.pop()
            Nodes.running.remove(node)
            with contextlib.suppress(OSError):
                node.stop()


def make_nodes(factory):
    nodes = Nodes(factory)
    yield nodes
    nodes.stop()


@pytest.fixture
def nodes(tmp_path):
    yield from make_nodes(tmp_path)


@pytest.fixture(scope="module")
def shared_nodes(tmp_path_factory):
    """Nodes that all tests of a file share."""
    yield from make_nodes(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def two_hosts():
    """Two netlab hosts on one network, or a skip with the reason. Asked for before `nodes`, so that
    they outlive what runs on them."""
    reason = support.why_no_lab()
    if reason:
        pytest.skip(reason)
    lab = support.Lab(2)
    yield lab
    lab.down()


def make_laboratory():
    reason = lab.why_no_lab()
    if reason:
        pytest.skip(reason)
    made = lab.Lab()
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def laboratory():
    yield from make_laboratory()


@pytest.fixture
def start(nodes):
    """Starts a node on a host of the laboratory, with no configuration but these flags."""

    def started(host, *flags, **options):
        return nodes.start(*lab.NODE_FLAGS, *flags, host=host, models=False, **options)

    return started


@pytest.fixture(scope="module")
def shared_laboratory():
    """One that all tests of a file share. Asked for before `shared_nodes`."""
    yield from make_laboratory()


def pytest_terminal_summary(terminalreporter):
    """What tests have measured, failed or not; the reports of ctest have it too."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if getattr(report, "when", "") == "call":
                    terminalreporter.write_line(f"{report.nodeid}: {name} {value}")
