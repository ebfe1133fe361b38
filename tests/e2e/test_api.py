"""One node, asked by the real OpenAI client and by hand."""
import openai
import pytest
import support
from support import LOAD_S, MODEL, QUESTION, wait_for


@pytest.fixture(scope="module")
def node(shared_nodes):
    started = shared_nodes.start()
    wait_for("the node is master", lambda: started.state()["masterNodeId"] == started.id, 10)
    return started


@pytest.fixture
def client(node):
    with node.openai() as made:
        yield made


def chat(node, **body):
    return node.http("POST", "/v1/chat/completions", **body)


def error_of(response, status):
    """The message of an error in OpenAI's envelope."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert {"message", "type"} <= error.keys()
    assert error["message"]
    return error["message"]


def test_a_chat_for_a_model_without_an_instance_places_one_by_itself(node, client):
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0)
    assert "Paris" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens > 0
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert len(node.state()["instances"]) == 1


def test_a_stream_gives_the_text_of_the_whole_answer(node, client):
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0)
    assert node.ask(QUESTION) == whole.choices[0].message.content


def test_requests_while_a_model_loads_wait_for_it_and_place_no_second_one(node):
    for instance_id in list(node.state()["instances"]):
        node.delete(instance_id)
    streams = [support.Streaming(node, QUESTION) for _ in range(3)]
    for stream in streams:
        stream.join(LOAD_S)
        assert stream.error is None
    assert {"".join(stream.pieces) for stream in streams} == {"".join(streams[0].pieces)}
    assert "Paris" in "".join(streams[0].pieces)
    assert len(node.state()["instances"]) == 1


def test_a_seed_repeats_a_sampled_answer(node):
    first, again, other = (
        node.ask(QUESTION, temperature=1.5, seed=seed, max_tokens=24) for seed in (7, 7, 8)
    )
    assert first == again
    assert first != other


def test_top_k_1_is_greedy_at_any_temperature(node):
    greedy = node.ask(QUESTION, max_tokens=12)
    assert node.ask(QUESTION, temperature=2, extra_body={"top_k": 1}, max_tokens=12) == greedy


def test_max_tokens_cuts_the_answer_and_says_so(client):
    answer = client.chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=0, max_tokens=3
    )
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 3


def test_models_are_listed_with_the_demo_model(client):
    assert any(MODEL in model.id.lower() for model in client.models.list())


def test_an_unknown_model_is_404_and_named(client):
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="no-such-model", messages=QUESTION)
    assert "no-such-model" in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b"{not json",
        b"",
        b"[]",
        b'{"model": "%s"}' % MODEL.encode(),
        b'{"model": "%s", "messages": []}' % MODEL.encode(),
        b'{"model": "%s", "messages": "hello"}' % MODEL.encode(),
        b'{"model": 3, "messages": [{"role": "user", "content": "x"}]}',
        b'{"model": "%s", "messages": [{"role": "user", "content": 5}]}' % MODEL.encode(),
        b'{"model": "%s", "messages": [{"role": "user", "content": "x"}], "temperature": "hot"}'
        % MODEL.encode(),
        b'{"model": "%s", "messages": [{"role": "user", "content": "x"}], "max_tokens": -1}'
        % MODEL.encode(),
        b"[" * 100_000,
    ],
)
def test_bad_input_is_400_in_openai_s_envelope(node, body):
    error_of(chat(node, content=body), 400)


def test_a_wrong_path_or_method_is_answered_in_the_same_envelope(node):
    error_of(node.http("GET", "/no/such/path"), 404)
    error_of(node.http("GET", "/v1/chat/completions"), 405)


def test_an_instance_can_be_placed_seen_and_deleted(node):
    body = {"model_id": MODEL, "sharding": "Pipeline", "instance_meta": "MlxRing", "min_nodes": 1}
    placed = node.http("POST", "/place_instance", json=body).json()
    assert {"message", "command_id", "model_card", "instance_id"} <= placed.keys()
    instance_id = placed["instance_id"]
    seen = wait_for("it is seen", lambda: node.get(f"/instance/{instance_id}"), 10)
    assert seen["MlxRingInstance"]["instanceId"] == instance_id
    node.delete(instance_id)
    error_of(node.http("GET", f"/instance/{instance_id}"), 404)
    error_of(node.http("DELETE", f"/instance/{instance_id}"), 404)


def test_a_placement_that_cannot_be_is_409_with_the_reason(node):
    body = {"model_id": MODEL, "sharding": "Pipeline", "instance_meta": "MlxRing", "min_nodes": 5}
    message = error_of(node.http("POST", "/place_instance", json=body), 409)
    assert "5" in message


def test_the_state_has_its_field_names(node):
    state = node.state()
    wanted = {"topology", "instances", "runners", "tasks", "nodeMemory", "lastEventAppliedIdx"}
    assert wanted | {"masterNodeId"} <= state.keys()
    assert state["topology"]["nodes"] == [node.id]
    memory = state["nodeMemory"][node.id]
    assert memory["ramTotal"]["inBytes"] >= memory["ramAvailable"]["inBytes"] > 0


def test_health_answers(node):
    assert node.http("GET", "/health").status_code == 200


def test_a_second_start_keeps_the_node_s_identity(nodes):
    first = nodes.start()
    name = first.id
    nodes.stop()
    assert nodes.start(home=first.home).id == name


def test_unicode_comes_whole_in_every_piece(node):
    prompt = [{"role": "user", "content": "Repeat exactly: 日本語 🙂 ünïcödé"}]
    text = node.ask(prompt, max_tokens=48)
    assert "\ufffd" not in text
