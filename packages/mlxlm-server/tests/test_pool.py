"""Several models, and which of them are loaded."""

import asyncio
import gc
import threading
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_generate import BatchGenerator
from mlxlm_server import ApiError, ServerSettings
from mlxlm_server.pool import Pool

ASK = {"prompt": "Once upon a time", "max_tokens": 6}


class Shelf:
    """Loads models of different weights, by their names, and takes note."""

    def __init__(self, make_model: Any, tokenizer: Any) -> None:
        self.make_model, self.tokenizer = make_model, tokenizer
        self.taken: list[tuple[str, str | None]] = []
        self.wait = threading.Event()
        self.wait.set()

    def __call__(self, name: str, adapter: str | None) -> tuple[Any, Any]:
        self.wait.wait(20)
        self.taken.append((name, adapter))
        if name == "broken":
            raise ValueError("secret path")
        seed = sum(map(ord, f"{name}{adapter}"))
        return self.make_model(seed=seed, num_hidden_layers=1), self.tokenizer


@pytest.fixture
def shelf(make_model: Any, loaded: Any) -> Shelf:
    return Shelf(make_model, loaded[1])


def test_the_model_unused_for_longest_makes_room(serve: Any, shelf: Shelf) -> None:
    live = serve(load=shelf, models=("a", "b", "c"), max_models=2)
    texts = {}
    for name in ("a", "b", "a", "c", "a", "b"):
        answer = live.http.post("/v1/completions", json={**ASK, "model": name}).json()
        assert answer["model"] == name
        text = answer["choices"][0]["text"]
        assert texts.setdefault(name, text) == text
    assert len(set(texts.values())) == 3
    assert [name for name, _ in shelf.taken] == ["a", "b", "c", "b"]
    assert {loaded.name for loaded in live.server.pool.loaded} == {"a", "b"}


def test_an_adapter_is_asked_for_by_its_name(serve: Any, shelf: Shelf) -> None:
    live = serve(load=shelf, models=("a",), adapters={"poet": "/adapters/poet"}, max_models=2)
    texts = [
        live.http.post("/v1/completions", json={**ASK, "model": name}).json()["choices"][0]["text"]
        for name in ("a", "poet")
    ]
    assert shelf.taken == [("a", None), ("a", "/adapters/poet")]
    assert texts[0] != texts[1]


def test_what_was_unloaded_takes_no_memory(serve: Any, shelf: Shelf) -> None:
    live = serve(load=shelf, models=("a", "b"))
    held = []
    for name in ("a", "b", "a", "b", "a"):
        live.http.post("/v1/completions", json={**ASK, "model": name})
        gc.collect()
        held.append(mx.get_active_memory())
    assert max(held) - min(held) < 2**20


def test_a_model_in_use_stays_and_the_other_request_is_told_to_come_again(
    serve: Any, shelf: Shelf, wait_until: Any
) -> None:
    live = serve(load=shelf, models=("a", "b"))
    long = {**ASK, "max_tokens": 100_000, "ignore_eos": True, "stream": True}
    with live.http.stream("POST", "/v1/completions", json=long) as response:
        lines = response.iter_lines()
        next(lines)
        refused = live.http.post("/v1/completions", json={**ASK, "model": "b"})
        assert refused.status_code == 429
        assert refused.headers["retry-after"]
    wait_until(lambda: not live.server.runs)
    assert live.http.post("/v1/completions", json={**ASK, "model": "b"}).status_code == 200


def test_requests_for_what_is_loaded_do_not_wait_while_another_model_loads(
    serve: Any, shelf: Shelf
) -> None:
    live = serve(load=shelf, models=("a", "b"), max_models=2)
    shelf.wait.clear()
    loading = threading.Thread(
        target=live.http.post, args=("/v1/completions",), kwargs={"json": {**ASK, "model": "b"}}
    )
    loading.start()
    assert live.http.post("/v1/completions", json=ASK, timeout=10).status_code == 200
    assert shelf.taken == [("a", None)]
    shelf.wait.set()
    loading.join()
    assert ("b", None) in shelf.taken


def test_a_model_that_cannot_be_loaded_is_status_503_and_says_no_path(
    serve: Any, shelf: Shelf
) -> None:
    live = serve(load=shelf, models=("a", "broken"), max_models=2)
    failed = live.http.post("/v1/completions", json={**ASK, "model": "broken"})
    assert failed.status_code == 503
    assert failed.json()["error"]["code"] == "load_failed"
    assert "secret" not in failed.text
    assert live.http.get("/ready").status_code == 200


def test_R10_settings_that_a_model_cannot_have_are_found_when_it_is_loaded(
    serve: Any, shelf: Shelf
) -> None:
    made = []

    def second_refuses(*arguments: Any, **options: Any) -> BatchGenerator:
        made.append(arguments)
        if len(made) == 2:
            raise ValueError("kv_bits: not for this model")
        return BatchGenerator(*arguments, **options)

    live = serve(load=shelf, models=("a", "b"), max_models=2, make_generator=second_refuses)
    failed = live.http.post("/v1/completions", json={**ASK, "model": "b"}, timeout=10)
    assert failed.status_code == 503
    assert failed.json()["error"]["code"] == "load_failed"
    assert len(made) == 2  # and it is not tried again and again
    assert live.http.get("/ready").status_code == 200


def asked(settings: ServerSettings, name: str | None) -> list[str]:
    """Return what is loaded when a request asks for a name."""
    loaded: list[str] = []

    def load(name: str, adapter: str | None) -> Any:
        loaded.append(name)
        raise ValueError("enough")

    with pytest.raises(ApiError):
        asyncio.run(Pool(settings, load).get(name))
    return loaded


def test_a_model_is_asked_for_by_name_or_source_and_found_there() -> None:
    settings = ServerSettings(models=("a",), sources={"a": "/models/a"})
    for name in (None, "default_model", "a", "/models/a"):
        assert asked(settings, name) == ["/models/a"]
    assert asked(settings, "/models/b") == []


def test_without_models_a_request_names_repositories_never_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here" / "model").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    settings = ServerSettings()
    assert asked(settings, "there/model") == ["there/model"]
    for name in ("here/model", "../x", "/etc/passwd", "a/../b", "package:os", "a/b/c", "~/x"):
        assert asked(settings, name) == []
