import time
from typing import Any

import httpx
import pytest
from mlxlm_generate import BatchGenerator

LONG = {"prompt": "Once upon a time", "max_tokens": 4000, "ignore_eos": True, "stream": True}


def test_metrics_and_models_are_told(live: Any) -> None:
    assert live.http.get("/health").json() == {"status": "ok"}
    assert [m.id for m in live.openai.models.list()] == ["smol"]
    live.http.post("/v1/completions", json={"prompt": "Hello", "max_tokens": 1})
    assert 'mlxlm_requests_total{model="smol",outcome="length"}' in live.http.get("/metrics").text


def test_R38_a_client_that_leaves_ends_its_request(live: Any, wait_until: Any) -> None:
    with live.http.stream("POST", "/v1/completions", json=LONG) as response:
        lines = response.iter_lines()  # kept: a dropped one closes the connection
        next(lines)
        assert len(live.server.runs) == 1
    wait_until(lambda: not live.server.runs, 3)
    assert live.server.pool.loaded[0].engine.under_way == 0


def test_cancel_ends_a_request_by_its_id(live: Any, wait_until: Any) -> None:
    with live.http.stream("POST", "/v1/completions", json=LONG) as response:
        lines = response.iter_lines()
        next(lines)
        request = response.headers["x-request-id"]
        assert live.http.post("/v1/cancel", json={"id": f"cmpl-{request}"}).status_code == 200
        rest = [line for line in lines if line]
    assert '"cancelled"' in rest[-1]
    assert live.http.post("/v1/cancel", json={"id": request}).status_code == 404


def test_R38_a_client_that_leaves_before_the_first_token_ends_its_request(
    serve_tiny: Any, wait_until: Any
) -> None:
    class SlowToRead(BatchGenerator):
        def next(self) -> Any:
            time.sleep(0.05)
            return super().next()

    live = serve_tiny(make_generator=SlowToRead, prefill_step_size=8)
    body = {**LONG, "prompt": [7] * 4000}
    for stream in (True, False):
        with pytest.raises(httpx.ReadTimeout):
            live.http.post("/v1/completions", json={**body, "stream": stream}, timeout=0.5)
        wait_until(lambda: not live.server.runs, 3)
    assert live.server.pool.loaded[0].engine.under_way == 0


def test_a_client_that_does_not_read_holds_nobody_up(serve_tiny: Any, wait_until: Any) -> None:
    live = serve_tiny()
    body = {**LONG, "max_tokens": 1500}
    with live.http.stream("POST", "/v1/completions", json=body) as slow:
        lines = slow.iter_lines()
        next(lines)
        for _ in range(3):
            answer = live.http.post("/v1/completions", json={"prompt": "One", "max_tokens": 5})
            assert answer.status_code == 200
        wait_until(lambda: live.server.pool.loaded[0].engine.under_way == 0, 60)
        text = "\n".join(lines)  # what it did not read is still there
    assert text.count('"finish_reason": "length"') == 1
    assert text.endswith("data: [DONE]\n")
