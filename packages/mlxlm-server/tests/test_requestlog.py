import logging
from typing import Any

import httpx
import pytest


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture, wait_until: Any) -> Any:
    """Return a function: wait for so many lines, and return their fields."""
    caplog.set_level(logging.INFO, logger="mlxlm_server.requests")

    def read(count: int) -> list[dict[str, Any]]:
        wait_until(lambda: len(caplog.records) >= count)
        assert len(caplog.records) == count
        return [record.__dict__["fields"] for record in caplog.records]

    return read


def test_what_generates_has_one_line_with_its_times_and_its_end(
    serve_tiny: Any, lines: Any
) -> None:
    live = serve_tiny()
    for stream in (False, True):
        body = {"prompt": "Hello, how are you?", "max_tokens": 4, "stream": stream}
        response = live.http.post("/v1/completions", json=body)
    first, second = lines(2)
    assert second["request_id"] == response.headers["x-request-id"]
    for fields in (first, second):
        assert fields["path"] == "/v1/completions"
        assert fields["outcome"] == "length"
        assert fields["generated_tokens"] == 4
        times = fields["queue_s"] + fields["prefill_s"], fields["first_token_s"], fields["seconds"]
        assert times[0] == pytest.approx(times[1], abs=1e-3)
        assert 0 < times[1] <= times[2]
        assert fields["tokens_per_s"] > 0
    assert first["cached_tokens"] == 0
    assert second["cached_tokens"] == second["prompt_tokens"] - 1


def test_what_is_refused_has_one_line_and_probes_have_none(serve_tiny: Any, lines: Any) -> None:
    live = serve_tiny(api_keys=("right",), max_queue=1)
    httpx.get(f"{live.url}/v1/models", headers={"x-api-key": "secret"})
    live.http.get("/ready")
    live.http.post("/v1/completions", json={"prompt": "a", "n": 2})
    live.http.get("/x%0Ay z")
    unknown, full, odd = lines(3)
    assert (unknown["status"], unknown["path"]) == (401, "/v1/models")
    assert full["outcome"] == "queue_full"
    assert (odd["status"], odd["path"]) == (404, "/x\ny z")


def test_no_line_holds_a_key_and_none_is_broken_by_a_path(
    serve_tiny: Any, lines: Any, caplog: pytest.LogCaptureFixture
) -> None:
    live = serve_tiny(api_keys=("right",))
    httpx.get(f"{live.url}/x%0Ay z", headers={"x-api-key": "wrong-one"})
    lines(1)
    assert "right" not in caplog.text
    assert "wrong-one" not in caplog.text
    assert 'path="/x\\ny z"' in caplog.text
    assert "right" not in repr(live.server.settings)
