from typing import Any

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
