from typing import Any

import mlx.core as mx
import pytest
from mlxlm_generate import generation_stream, wired_limit
from mlxlm_generate import wired as module


@pytest.fixture
def metal(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A machine with Metal that recommends 100 kB; gives the limits set, in order."""
    current, calls = 7, []

    def set_wired_limit(limit: int) -> int:
        nonlocal current
        before, current = current, limit
        calls.append(limit)
        return before

    monkeypatch.setattr(module, "backend", lambda: "metal")
    monkeypatch.setattr(module, "working_set", lambda: 100_000)
    monkeypatch.setattr(mx, "set_wired_limit", set_wired_limit)
    return calls


def test_limit_is_raised_and_restored(metal: list[int]) -> None:
    with wired_limit(object(), [generation_stream()]):
        assert metal == [100_000]
    assert metal == [100_000, 7]


def test_restored_after_an_error(metal: list[int]) -> None:
    with pytest.raises(KeyError), wired_limit(object()):
        raise KeyError
    assert metal == [100_000, 7]


def test_the_last_of_several_restores(metal: list[int]) -> None:
    first, second = wired_limit(object()), wired_limit(object())
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert metal == [100_000]
    second.__exit__(None, None, None)
    assert metal == [100_000, 7]


def test_large_model_is_warned_of(
    metal: list[int], model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert module.model_bytes(model) > 100_000
    with wired_limit(model):
        pass
    assert "iogpu.wired_limit_mb" in caplog.text
    caplog.clear()
    with wired_limit(object()):
        pass
    assert caplog.text == ""


def test_nothing_without_metal(monkeypatch: pytest.MonkeyPatch) -> None:
    def unexpected(limit: int) -> int:
        raise AssertionError(limit)

    monkeypatch.setattr(module, "backend", lambda: "cpu")
    monkeypatch.setattr(mx, "set_wired_limit", unexpected)
    with wired_limit(object()):
        pass


def test_model_bytes_counts_every_array(model: Any) -> None:
    import mlx.nn as nn

    assert module.model_bytes(nn.Linear(4, 4)) == 4 * (16 + 4)
    assert module.model_bytes(object()) == 0
