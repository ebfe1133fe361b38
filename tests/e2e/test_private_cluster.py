"""Private clusters: `exo cluster`, and nodes that follow it.

People found it confusing to set up a private swarm (field reports #551, #589, #621): here it is two
commands, `exo cluster create` on one machine and `exo cluster join TOKEN` on the others."""
import os
import re
import socket
import stat
import subprocess

import pytest
import support
from support import wait_for

FOLLOW_S = 20  # A running node, from the command until it is in its new network with its peers.
APART_S = 5  # Long enough for several tries to connect that must fail.


def cluster(home, *words, given="", host=None):
    """Runs `exo cluster`."""
    return support.run_exo("cluster", *words, home=home, host=host, given=given)


def create(home, **options):
    """Returns the token."""
    done = cluster(home, "create", **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def join(home, token, **options):
    done = cluster(home, "join", token, **options)
    assert done.returncode == 0, done.stderr
    return done


def secret_file(home):
    return home / "config" / "cluster.token"


def peers_of(node):
    """Those that it is connected with, by what it says of itself every 2 s."""
    return set(node.state()["topology"]["connections"][node.id])


def are_together(*members):
    """Each is connected with all others, and with nobody else."""
    ids = {node.id for node in members}
    return all(peers_of(node) == ids - {node.id} for node in members)


def wait_together(*members):
    wait_for("exactly these see each other", lambda: are_together(*members), FOLLOW_S)


def one_master(*members):
    masters = {node.state()["masterNodeId"] for node in members}
    return len(masters) == 1 and masters <= {node.id for node in members}


def stays(condition, seconds=APART_S):
    """True if the condition holds all the time."""
    with pytest.raises(AssertionError):
        wait_for("that it does not hold", lambda: not condition(), seconds, every=0.2)
    return True


@pytest.fixture
def start(nodes):
    """Starts a node without models, whose log tells why strangers are refused."""

    def start_one(*flags, **options):
        node = nodes.start("--no-worker", "-v", *flags, models=False, **options)
        wait_for("it is up", node.is_up, support.START_S)
        return node

    return start_one


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


# ---- two commands


def test_two_commands_make_a_private_cluster_while_the_nodes_run(start):
    first, second, stranger = start(), start(), start()
    wait_together(first, second, stranger)
    token = create(first.home)
    join(second.home, token)
    wait_together(first, second)
    wait_together(stranger)
    wait_for("one master", lambda: one_master(first, second), FOLLOW_S)
    # Its tries are refused, and the members say so.
    for member in (first, second):
        wait_for(
            "a refusal is told", lambda m=member: m.get("/network/diagnosis")["refused"], FOLLOW_S
        )
    assert stays(lambda: are_together(first, second) and are_together(stranger))
    assert stranger.is_up()


def test_nodes_that_start_later_are_members_from_the_start(start, nodes):
    homes = [nodes.folder / name for name in ("a", "b")]
    token = create(homes[0])
    join(homes[1], token)
    first, second = (start(home=home) for home in homes)
    stranger = start()
    wait_together(first, second)
    assert stays(lambda: are_together(first, second) and are_together(stranger))
    for node in (first, second):
        assert "in the private cluster" in node.log()


def test_without_multicast_the_addresses_of_the_token_suffice(two_hosts, start):
    for host in two_hosts.hosts:
        command = ["ip", "-n", host.name, "link", "set", "eth0", "multicast", "off"]
        subprocess.run(command, check=True)
    first = start(host=two_hosts.hosts[0])
    second = start(host=two_hosts.hosts[1])
    assert stays(lambda: are_together(first) and are_together(second))
    token = create(first.home, host=two_hosts.hosts[0])
    join(second.home, token, host=two_hosts.hosts[1])
    wait_together(first, second)


# ---- leaving, rotating


def test_who_leaves_is_in_the_public_network_again(start):
    first, second, public = start(), start(), start()
    join(second.home, create(first.home))
    wait_together(first, second)
    wait_together(public)
    done = cluster(second.home, "leave")
    assert done.returncode == 0
    assert "public network" in done.stderr
    wait_together(second, public)
    wait_together(first)
    assert not secret_file(second.home).exists()
    assert "left the private cluster" in second.log()


def test_a_new_secret_leaves_behind_who_does_not_join_with_the_new_token(start):
    first, second, left = start(), start(), start()
    old = create(first.home)
    join(second.home, old)
    join(left.home, old)
    wait_together(first, second, left)
    done = cluster(first.home, "rotate")
    assert done.returncode == 0
    assert "refused" in done.stderr
    new = done.stdout.strip()
    assert new != old
    wait_together(second, left)
    join(second.home, new)
    wait_together(first, second)
    wait_together(left)
    assert stays(lambda: are_together(first, second) and are_together(left))
    # The old token is no way in any more.
    join(left.home, old)
    assert stays(lambda: are_together(left))


# ---- restarts


def port_of(node):
    """The port for other nodes, as it says in its log."""
    line = re.compile(r"listens on /ip4/0\.0\.0\.0/tcp/(\d+)")
    return int(wait_for("it listens", lambda: line.search(node.log()), support.START_S)[1])


def test_membership_and_port_are_kept_over_a_restart(start):
    first, second = start(), start()
    join(second.home, create(first.home))
    wait_together(first, second)
    before = cluster(first.home, "token").stdout
    ports = [port_of(node) for node in (first, second)]
    for node in (first, second):
        node.stop()
    again = [start(home=node.home) for node in (first, second)]
    wait_together(*again)
    assert [port_of(node) for node in again] == ports
    assert cluster(first.home, "token").stdout == before
    status = cluster(first.home, "status").stdout
    assert str(ports[0]) in status


def test_a_kept_port_that_is_taken_gives_way_and_the_log_says_so(start, home):
    create(home)
    port = int((home / "data" / "libp2p_port").read_text())
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", port))
        taken.listen()
        node = start(home=home)
        assert port_of(node) != port
    assert f"/tcp/{port}" in node.log() and "trying another port" in node.log()
    assert int((home / "data" / "libp2p_port").read_text()) == port_of(node)


def test_a_token_made_before_the_first_start_has_the_port_of_the_node(start, home):
    create(home)
    kept = int((home / "data" / "libp2p_port").read_text())
    assert port_of(start(home=home)) == kept


# ---- the secret


def test_only_the_owner_can_read_the_secret_and_no_log_has_it(start, home):
    token = create(home)
    assert stat.S_IMODE(secret_file(home).stat().st_mode) == 0o600
    node = start("-vv", home=home)
    cluster(home, "rotate")
    wait_for("it follows", lambda: "from the private cluster" in node.log(), FOLLOW_S)
    rotated = secret_file(home).read_text()
    written = node.log() + (home / "cache" / "exo_log" / "exo.log").read_text()
    for secret in (token, rotated):
        assert secret[5:25] not in written


def test_a_secret_that_others_could_read_is_closed_to_them_with_a_warning(start, home):
    create(home)
    secret_file(home).chmod(0o644)
    assert "could be read by others" in cluster(home, "status").stderr
    assert stat.S_IMODE(secret_file(home).stat().st_mode) == 0o600
    secret_file(home).chmod(0o640)
    node = start(home=home)
    wait_for("it is told", lambda: "could be read by others" in node.log(), support.START_S)
    assert stat.S_IMODE(secret_file(home).stat().st_mode) == 0o600


def test_a_damaged_secret_never_takes_a_node_into_the_public_network(start, home):
    create(home)
    node = start(home=home)
    whole = secret_file(home).read_text()
    secret_file(home).write_text(whole[:40])
    wait_for("it is told", lambda: "is cut off" in node.log(), FOLLOW_S)
    assert "stays in the network" in node.log()
    assert stays(lambda: "left the private cluster" not in node.log(), 3)
    node.stop()
    done = support.run_exo("--api-port", "0", home=home)
    assert done.returncode == 1
    assert str(secret_file(home)) in done.stderr
    assert "exo cluster leave" in done.stderr


def test_a_secret_wins_over_a_namespace_and_the_log_says_so(start, home):
    create(home)
    node = start("--namespace", "team", home=home)
    wait_for("it is told", lambda: "'team' has no effect" in node.log(), support.START_S)


def test_B096_a_stranger_gets_nothing_but_a_nonce_and_is_shown_the_door(start, home):
    create(home)
    node = start(home=home)
    with socket.create_connection(("127.0.0.1", port_of(node)), timeout=15) as stranger:
        stranger.sendall(os.urandom(24) + b"\x13/multistream/1.0.0\n\x07/noise\n" * 20)
        heard = b""
        while piece := stranger.recv(4096):
            heard += piece
    # Ours is encrypted with the secret, so what came is noise to whoever has none.
    assert b"multistream" not in heard
    wait_for("a refusal is told", lambda: "refused 127.0.0.1" in node.log(), 15)


# ---- mistakes


def test_mistakes_are_told_in_words_and_change_nothing(home):
    token = create(home)
    kept = secret_file(home).read_text()
    wrong = token[:-1] + ("0" if token[-1] != "0" else "1")
    for words, code, said in [
        (["create"], 1, "already"),
        (["join", token[:60]], 2, "cut off"),
        (["join", wrong], 2, "wrong letter"),
        (["join", "hello"], 2, "must begin with 'exo1-'"),
        (["join", "exo2" + token[4:]], 2, "version 2"),
        (["join"], 2, "must begin with 'exo1-'"),
        (["frobnicate"], 2, "exo cluster --help"),
        ([], 2, "exo cluster --help"),
    ]:
        done = cluster(home, *words)
        assert done.returncode == code, (words, done)
        assert said in done.stderr, (words, done)
        assert len(done.stderr.splitlines()) <= 3
        assert done.stdout == ""
    assert secret_file(home).read_text() == kept


def test_outside_of_a_cluster_there_is_no_token_and_nothing_to_leave(home):
    assert cluster(home, "token").returncode == 1
    assert cluster(home, "rotate").returncode == 1
    assert cluster(home, "leave").returncode == 0
    assert "none" in cluster(home, "status").stdout
    assert not home.exists()


def test_a_token_is_taken_from_standard_input_and_in_pieces(tmp_path):
    token = create(tmp_path / "a")
    join(tmp_path / "b", "-", given=token + "\n")
    assert cluster(tmp_path / "c", "join", given=token).returncode == 0
    assert cluster(tmp_path / "d", "join", token[:40], token[40:]).returncode == 0
    first = secret_file(tmp_path / "b").read_text()
    assert all(secret_file(tmp_path / name).read_text() == first for name in "cd")


@pytest.mark.parametrize("word", "create join leave token status rotate".split())
def test_help_names_every_command_and_writes_nothing(word, home):
    done = cluster(home, "--help")
    assert done.returncode == 0
    assert word in done.stdout
    assert not home.exists()
