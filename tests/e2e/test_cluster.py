"""Two machines find each other and answer with one model split between them; then one is cut off.

The machines are netlab hosts: network namespaces on a bridge, with multicast. `exo` runs with no
configuration but its EXO_HOME; the hosts share a disk."""
import time

import mamba_file
import openai
import pytest
import support
from support import LOAD_S, Streaming, wait_for

FOUND_S = 10  # Two nodes, from their start to one cluster with one master.
NOTICED_S = 10  # A cut cable, until the stream has ended and the survivor leads.
LONG = {"max_tokens": 4000, "temperature": 0.8, "extra_body": {"seed": 1}}


def start_two(nodes, lab):
    """Two nodes that have become one cluster, in time."""
    started = time.monotonic()
    pair = [nodes.start(host=host) for host in lab.hosts]
    ids = {node.id for node in pair}

    def left():
        return FOUND_S - (time.monotonic() - started)

    for node in pair:
        wait_for("it sees both", lambda n=node: set(n.state()["topology"]["nodes"]) == ids, left())
    wait_for("both have one master", lambda: one_master(pair), left())
    return pair


def one_master(pair):
    masters = {node.state()["masterNodeId"] for node in pair}
    return len(masters) == 1 and masters <= {node.id for node in pair} and masters.pop()


def answer_of(node, sharding, min_nodes):
    """What the model says when placed so; the instance is gone again afterwards."""
    instance = node.place(sharding, min_nodes)
    node.wait_ready(instance)
    assert len(support.nodes_of(node.state(), instance)) == min_nodes
    text = node.ask()
    node.delete(instance)
    return text


def test_one_model_over_two_machines_says_what_one_machine_says(two_hosts, nodes):
    first, second = start_two(nodes, two_hosts)
    alone = answer_of(first, "Pipeline", 1)
    assert "Paris" in alone
    assert answer_of(second, "Pipeline", 2) == alone
    assert "Paris" in answer_of(first, "Tensor", 2)
    assert "Paris" in answer_of(second, "Tensor", 2)


@pytest.mark.parametrize("sharding", ["Pipeline", "Tensor"])
@pytest.mark.parametrize("cut_the_master", [True, False], ids=["master", "other"])
def test_when_one_is_cut_off_the_other_leads_and_answers(
    two_hosts, nodes, cut_the_master, sharding
):
    pair = start_two(nodes, two_hosts)
    master = next(node for node in pair if node.id == one_master(pair))
    other = next(node for node in pair if node is not master)
    survivor, lost = (other, master) if cut_the_master else (master, other)
    placed = survivor.place(sharding, min_nodes=2)
    survivor.wait_ready(placed)
    stream = Streaming(survivor, **LONG)
    stream.wait_pieces()

    two_hosts.cut(lost.host)
    cut = time.monotonic()
    wait_for(
        "the survivor leads", lambda: survivor.state()["masterNodeId"] == survivor.id, NOTICED_S
    )
    stream.join(max(0.0, cut + NOTICED_S - time.monotonic()))
    assert stream.ended_at is not None, "the stream is still open"
    assert isinstance(stream.error, openai.APIError), stream.error

    assert "Paris" in ask_again(survivor, LOAD_S)
    state = survivor.state()
    assert placed not in state["instances"]
    assert [support.nodes_of(state, i) for i in state["instances"]] == [{survivor.id}]


def ask_again(node, seconds):
    """An answer within `seconds`; the first tries may meet the instance that is going."""
    errors = []

    def answered():
        try:
            return node.ask()
        except openai.APIError as error:
            errors.append(str(error))
            return None

    try:
        return wait_for("it answers again", answered, seconds, every=0.5)
    finally:
        print("refused meanwhile:", *dict.fromkeys(errors), sep="\n    ")


def test_what_cannot_be_cut_is_refused_with_the_reason_and_no_node_suffers(two_hosts, nodes):
    first, second = start_two(nodes, two_hosts)
    for node in (first, second):
        mamba_file.write(node.home / "models" / "tiny-mamba.gguf", support.MODEL_FILE)
    for node in (first, second):
        wait_for("both have it", lambda n=node: holders(n, "tiny-mamba") == 2, FOUND_S)
    body = {
        "model_id": "tiny-mamba",
        "sharding": "Tensor",
        "instance_meta": "MlxRing",
        "min_nodes": 2,
    }
    refused = first.http("POST", "/place_instance", json=body, timeout=support.LOAD_S)
    assert refused.status_code == 400, refused.text
    message = refused.json()["error"]["message"]
    assert "cannot be cut by tensor into 2 parts" in message
    assert "mamba" in message and "use Pipeline" in message
    assert first.runners() == [] and second.runners() == []
    assert first.is_up() and second.is_up()
    placed = second.place("Pipeline", 2, model="tiny-mamba")
    second.wait_ready(placed)
    # Its estimates gave way to llama.cpp's figures.
    shard = next(iter(shards_of(second.state(), placed).values()))
    (cut,) = next(iter(shard.values()))["modelCard"]["cuts"]
    assert cut["ranks"] == 2 and len(cut["needs"]) == 2
    second.delete(placed)


def holders(node, model):
    return sum(model in str(models) for models in node.state()["downloads"].values())


def shards_of(state, instance_id):
    return support.document_of(state, instance_id)["shardAssignments"]["runnerToShard"]
