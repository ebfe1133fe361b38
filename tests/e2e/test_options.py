"""The command line: help, versions, mistakes."""
import socket

import pytest
import support

FLAGS = """--no-worker --no-api --no-downloads --spawn-api --force-master --api-host --api-port
--libp2p-port --namespace --bootstrap-peers --no-discovery --offline
--memory-limit -v --help --version""".split()
VARIABLES = """EXO_HOME EXO_DEFAULT_MODELS_DIR EXO_MODELS_DIRS EXO_MODELS_READ_ONLY_DIRS
EXO_LIBP2P_NAMESPACE EXO_BOOTSTRAP_PEERS EXO_OFFLINE""".split()


def run(*flags, home):
    return support.run_exo("--namespace", "test-options", *flags, home=home)


@pytest.mark.parametrize("word", FLAGS + VARIABLES)
def test_help_names_every_flag_and_variable(word, tmp_path):
    done = run("--help", home=tmp_path)
    assert done.returncode == 0
    assert word in done.stdout


def test_help_and_version_leave_no_files(tmp_path):
    assert run("--version", home=tmp_path).stdout.startswith("exo ")
    run("--help", home=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "flags, named",
    [
        (["--no-such-flag"], "--no-such-flag"),
        (["--api-port", "70000"], "--api-port"),
        (["--memory-limit", "2 bananas"], "--memory-limit"),
        (["--no-api", "--spawn-api"], "--spawn-api"),
        (["--threads", "513"], "--threads"),
    ],
)
def test_a_wrong_flag_ends_with_a_message_that_names_it(flags, named, tmp_path):
    done = run(*flags, home=tmp_path)
    assert done.returncode == 2
    assert named in done.stderr
    assert len(done.stderr.splitlines()) <= 5


@pytest.mark.parametrize("flag", ["--api-port", "--libp2p-port"])
def test_a_port_in_use_ends_with_code_1_and_names_the_port(flag, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1" if flag == "--api-port" else "0.0.0.0", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        other = "--libp2p-port" if flag == "--api-port" else "--api-port"
        done = run(flag, port, other, "0", home=tmp_path)
    assert done.returncode == 1
    assert port in done.stderr + done.stdout
    assert "in use" in done.stderr + done.stdout
