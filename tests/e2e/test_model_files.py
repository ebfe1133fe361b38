"""Files in a models directory that are no models are refused by name, with the reason."""
import pytest
import support

POINTER = b"""version https://git-lfs.github.com/spec/v1
oid sha256:b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
size 98362432
"""


def truncated(share):
    whole = support.MODEL_FILE.read_bytes()
    return whole[: int(len(whole) * share)]


@pytest.mark.parametrize(
    "name, content",
    [
        ("cut-data", lambda: truncated(0.5)),
        ("cut-header", lambda: truncated(0.005)),
        ("not-gguf", lambda: b"\x89PNG\r\n" + bytes(5000)),
        ("pointer", lambda: POINTER),
        ("empty", lambda: b""),
    ],
)
def test_a_broken_file_is_refused_by_name_and_the_rest_is_served(name, content, nodes):
    home = nodes.home()
    (home / "models").mkdir()
    (home / "models" / f"{name}.gguf").write_bytes(content())
    node = nodes.start(home=home)
    body = {"model": name, "messages": support.QUESTION}
    response = node.http("POST", "/v1/chat/completions", json=body, timeout=support.LOAD_S)
    assert response.status_code >= 400
    assert name in response.json()["error"]["message"]
    refusals = [line for line in node.log().splitlines() if f"{name}.gguf" in line]
    assert refusals, "the log does not name the file"
    listed = [model["id"] for model in node.get("/v1/models")["data"]]
    assert not any(name in model for model in listed)
    assert "Paris" in node.ask()
