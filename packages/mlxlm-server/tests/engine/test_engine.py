import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mlxlm_generate import BatchGenerator

BODY = {"prompt": "Once upon a time", "max_tokens": 8}
LONG = {**BODY, "max_tokens": 100_000, "ignore_eos": True}


class Faulty(BatchGenerator):
    """Dies, or hangs, in its next step when it is told to; `slow` in each of them."""

    fault = ""
    release = threading.Event()

    def next(self) -> Any:
        fault = Faulty.fault
        if fault == "slow":
            time.sleep(0.02)
            return super().next()
        Faulty.fault = ""
        if fault == "die":
            raise RuntimeError("secret detail")
        if fault == "hang":
            Faulty.release.wait(30)
        return super().next()


@pytest.fixture(autouse=True)
def no_fault_left() -> Any:
    yield
    Faulty.fault = ""
    Faulty.release.set()


def cached(answer: Any) -> int:
    return int(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_R31_the_death_of_the_thread_fails_what_waits_and_service_goes_on(
    serve_tiny: Any, wait_until: Any
) -> None:
    live = serve_tiny(make_generator=Faulty)
    good = live.http.post("/v1/completions", json=BODY).json()["choices"]
    Faulty.fault = "die"
    begun = time.monotonic()
    failed = live.http.post("/v1/completions", json=BODY)
    assert failed.status_code == 503
    assert time.monotonic() - begun < 1
    assert failed.json()["error"]["code"] == "engine_failed"
    assert "secret" not in failed.text
    wait_until(lambda: live.http.get("/ready").status_code == 200)
    again = live.http.post("/v1/completions", json=BODY)
    assert again.json()["choices"] == good
    assert cached(again) > 0  # what was computed before the death is still there


def test_R31_a_failing_request_is_the_only_one_that_fails(serve_tiny: Any) -> None:
    class OneFails(BatchGenerator):
        def _row(self, request: Any, uid: int) -> Any:
            if request.max_tokens == 7:
                raise OSError("secret detail")
            return super()._row(request, uid)

    live = serve_tiny(make_generator=OneFails)
    with ThreadPoolExecutor() as clients:
        answers = list(
            clients.map(
                lambda n: live.http.post("/v1/completions", json={**BODY, "max_tokens": n}),
                (6, 7, 8, 7, 9),
            )
        )
    assert [answer.status_code for answer in answers] == [200, 500, 200, 500, 200]
    assert "secret" not in answers[1].text


def test_R32_a_stall_is_noticed_and_the_old_thread_is_not_heard(
    serve_tiny: Any, wait_until: Any
) -> None:
    live = serve_tiny(make_generator=Faulty, stall_timeout=1.0)
    good = live.http.post("/v1/completions", json=BODY).json()["choices"]
    Faulty.release.clear()
    Faulty.fault = "hang"
    begun = time.monotonic()
    failed = live.http.post("/v1/completions", json=BODY)
    assert failed.status_code == 503
    assert time.monotonic() - begun < 2
    assert failed.json()["error"]["code"] == "engine_stalled"
    wait_until(lambda: live.http.get("/ready").status_code == 200)
    assert 'mlxlm_engine_hung_threads{model="smol"} 1.0' in live.http.get("/metrics").text
    again = live.http.post("/v1/completions", json=BODY)
    assert again.json()["choices"] == good
    assert cached(again) > 0
    Faulty.release.set()
    hung = "mlxlm_engine_hung_threads"
    wait_until(lambda: f'{hung}{{model="smol"}} 0.0' in live.http.get("/metrics").text)
    assert live.http.post("/v1/completions", json=BODY).json()["choices"] == good


def test_R32_health_is_503_from_a_stall_until_another_thread_serves(
    serve_tiny: Any, wait_until: Any
) -> None:
    may_start = threading.Event()
    may_start.set()

    def waiting(*arguments: Any, **options: Any) -> Faulty:
        may_start.wait(20)
        return Faulty(*arguments, **options)

    live = serve_tiny(make_generator=waiting, stall_timeout=0.5)
    Faulty.release.clear()
    Faulty.fault = "hang"
    may_start.clear()
    assert live.http.get("/health").status_code == 200
    assert live.http.post("/v1/completions", json=BODY).status_code == 503
    for path in ("/health", "/ready"):
        assert live.http.get(path).status_code == 503
    refused = live.http.post("/v1/completions", json=BODY)
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "engine_not_ready"
    may_start.set()
    wait_until(lambda: live.http.get("/health").status_code == 200)
    assert live.http.get("/ready").status_code == 200


def test_a_thread_that_hangs_at_the_prefixes_takes_them_with_it_and_service_goes_on(
    serve_tiny: Any, wait_until: Any, tmp_path: Path
) -> None:
    live = serve_tiny(stall_timeout=0.5, disk_cache=tmp_path)
    good = live.http.post("/v1/completions", json=BODY).json()["choices"]
    engine = live.server.pool.loaded[0].engine
    go_on = threading.Event()
    engine._prefixes.memory.fetch_nearest_cache = lambda *_: go_on.wait(20)
    assert live.http.post("/v1/completions", json=BODY).json()["error"]["code"] == "engine_stalled"
    wait_until(lambda: live.http.get("/ready").status_code == 200)
    again = live.http.post("/v1/completions", json=BODY)
    assert again.json()["choices"] == good
    assert cached(again) == 0
    go_on.set()
    wait_until(lambda: engine.hung_threads == 0)


def test_a_request_that_takes_too_long_is_ended(serve_tiny: Any, wait_until: Any) -> None:
    live = serve_tiny(make_generator=Faulty, request_timeout=0.5)
    Faulty.fault = "slow"
    whole = live.http.post("/v1/completions", json=LONG)
    assert whole.status_code == 503
    assert whole.json()["error"]["code"] == "timeout"
    assert "0.5 s" in whole.json()["error"]["message"]
    with live.http.stream("POST", "/v1/completions", json={**LONG, "stream": True}) as response:
        assert response.status_code == 200
        events = [line for line in response.iter_lines() if line]
    assert '"timeout"' in events[-1]
    wait_until(lambda: not live.server.runs)
    assert live.server.pool.loaded[0].engine.under_way == 0


def test_R33_an_idle_server_takes_no_time(live: Any) -> None:
    live.http.post("/v1/completions", json=BODY)
    time.sleep(0.3)
    spent = time.process_time()
    time.sleep(3)
    assert time.process_time() - spent < 0.01 * 3


def test_a_full_queue_is_status_429_with_a_time(serve: Any) -> None:
    live = serve(max_queue=1)
    response = live.http.post("/v1/completions", json={**BODY, "n": 2})
    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
