import threading
import time
from typing import Any

from mlxlm_generate import BatchGenerator

BODY = {"prompt": "Once upon a time", "max_tokens": 8}


class Faulty(BatchGenerator):
    """Dies, or hangs, in its next step when it is told to."""

    fault = ""
    release = threading.Event()

    def next(self) -> Any:
        fault, Faulty.fault = Faulty.fault, ""
        if fault == "die":
            raise RuntimeError("secret detail")
        if fault == "hang":
            Faulty.release.wait(30)
        return super().next()


def test_R31_the_death_of_the_thread_fails_what_waits_and_service_goes_on(
    serve: Any, wait_until: Any
) -> None:
    live = serve(make_generator=Faulty)
    good = live.http.post("/v1/completions", json=BODY).json()["choices"]
    Faulty.fault = "die"
    begun = time.monotonic()
    failed = live.http.post("/v1/completions", json=BODY)
    assert failed.status_code == 503
    assert time.monotonic() - begun < 1
    assert failed.json()["error"]["code"] == "engine_failed"
    assert "secret" not in failed.text
    wait_until(lambda: live.http.get("/ready").status_code == 200)
    assert live.http.post("/v1/completions", json=BODY).json()["choices"] == good


def test_R32_a_stall_is_noticed_and_the_old_thread_is_not_heard(
    serve: Any, wait_until: Any
) -> None:
    live = serve(make_generator=Faulty, stall_timeout=1.5)
    good = live.http.post("/v1/completions", json=BODY).json()["choices"]
    Faulty.release.clear()
    Faulty.fault = "hang"
    failed = live.http.post("/v1/completions", json=BODY)
    assert failed.status_code == 503
    assert failed.json()["error"]["code"] == "engine_stalled"
    wait_until(lambda: live.http.get("/ready").status_code == 200)
    Faulty.release.set()
    assert live.http.post("/v1/completions", json=BODY).json()["choices"] == good


def test_R33_an_idle_server_takes_no_time(live: Any) -> None:
    live.http.post("/v1/completions", json=BODY)
    time.sleep(0.3)
    spent = time.process_time()
    time.sleep(2)
    assert time.process_time() - spent < 0.02 * 2


def test_a_full_queue_is_status_429_with_a_time(serve: Any) -> None:
    live = serve(max_queue=1)
    response = live.http.post("/v1/completions", json={**BODY, "n": 2})
    assert response.status_code == 429
    assert response.headers["retry-after"] == "1"
