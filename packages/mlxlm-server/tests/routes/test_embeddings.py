import json
import threading
import time
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_server.engine.ticket import Work
from openai import BadRequestError

TEXTS = ["The sky is blue.", "Grass", "Two and two make four, as everyone knows."]


def test_vectors_are_the_pooled_states_of_the_model(live: Any, loaded: Any) -> None:
    model, tokenizer = loaded
    answer = live.openai.embeddings.create(
        model="smol", input=TEXTS, encoding_format="float", extra_body={"pooling": "mean"}
    )
    assert [item.index for item in answer.data] == [0, 1, 2]
    for text, item in zip(TEXTS, answer.data, strict=True):
        states = model.model(mx.array([tokenizer.encode(text)]))[0].astype(mx.float32)
        mean = states.mean(axis=0)
        assert mx.allclose(mx.array(item.embedding), mean / mx.linalg.norm(mean), atol=2e-3)
    assert answer.usage.prompt_tokens == sum(len(tokenizer.encode(text)) for text in TEXTS)


def test_base64_and_token_ids_give_the_same(live: Any, loaded: Any) -> None:
    def vectors(**ask: Any) -> Any:
        data = live.openai.embeddings.create(model="smol", **ask).data
        return mx.array([item.embedding for item in data])

    floats = vectors(input=TEXTS, encoding_format="float")
    assert mx.allclose(vectors(input=TEXTS), floats)  # the client asks for base64, and reads it
    assert mx.allclose(vectors(input=[loaded[1].encode(text) for text in TEXTS]), floats)
    assert mx.allclose(vectors(input=loaded[1].encode(TEXTS[0]))[0], floats[0], atol=1e-3)
    raw = live.http.post("/v1/embeddings", json={"input": "a", "encoding_format": "base64"}).json()
    assert isinstance(raw["data"][0]["embedding"], str)


def test_dimensions_cut_the_vector_to_length_1(live: Any) -> None:
    def ask(**extra: Any) -> mx.array:
        body = {"model": "smol", "input": "a", "encoding_format": "float", **extra}
        return mx.array(live.openai.embeddings.create(**body).data[0].embedding)

    whole, cut = ask(), ask(dimensions=16)
    assert cut.size == 16
    assert mx.allclose(cut, whole[:16] / mx.linalg.norm(whole[:16]), atol=1e-4)
    with pytest.raises(BadRequestError, match="dimensions=100000"):
        ask(dimensions=100000)


@pytest.mark.parametrize("wrong", [[], "", [[]], [[10**7]], ["a"] * 2049])
def test_R34_inputs_that_cannot_be_are_status_400(live: Any, wrong: Any) -> None:
    response = live.http.post("/v1/embeddings", json={"input": wrong})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "input"


def test_a_stream_goes_on_while_much_is_embedded(serve_tiny: Any) -> None:
    live = serve_tiny()
    many = {"input": [[7] * 2000] * 40}
    answers: list[Any] = []
    thread = threading.Thread(
        target=lambda: answers.append(live.http.post("/v1/embeddings", json=many))
    )
    body = {"prompt": [1, 2], "max_tokens": 5000, "ignore_eos": True, "stream": True}
    during = 0
    with live.http.stream("POST", "/v1/completions", json=body) as response:
        lines = response.iter_lines()
        next(lines)
        thread.start()
        for line in lines:
            if not thread.is_alive():
                break
            during += line.startswith("data: {")
    thread.join(30)
    assert answers[0].status_code == 200
    assert len(answers[0].json()["data"]) == 40
    # 40 texts are 160 pieces of the interleaved size, with a step between any two.
    assert during > 100


def test_R31_a_failing_work_is_its_own_requests_error(live: Any, monkeypatch: Any) -> None:
    def broken(*_: Any) -> Work:
        def work(model: Any) -> Any:
            yield
            raise RuntimeError("secret detail")

        return work

    with monkeypatch.context() as patch:
        patch.setattr("mlxlm_server.routes.embeddings.embeddings", broken)
        response = live.http.post("/v1/embeddings", json={"input": "a"})
    assert response.status_code == 500
    assert "secret" not in response.text
    assert live.http.post("/v1/embeddings", json={"input": "a"}).status_code == 200


def test_a_request_over_its_time_is_given_up(serve_tiny: Any, wait_until: Any) -> None:
    live = serve_tiny(request_timeout=0.3)
    begun = time.monotonic()
    response = live.http.post("/v1/embeddings", json={"input": [[7] * 4000] * 500})
    assert response.status_code == 503
    assert json.loads(response.text)["error"]["code"] == "timeout"
    wait_until(lambda: live.server.pool.loaded[0].engine.under_way == 0, 3)
    assert time.monotonic() - begun < 5
