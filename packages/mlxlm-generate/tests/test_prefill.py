from typing import Any

import mlx.core as mx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache import make_prompt_cache
from mlxlm_generate.forward import Forward
from mlxlm_generate.prefill import prefill
from mlxlm_generate.prompt import Prompt
from mlxlm_generate.streams import generation_stream


def filled(model: Any, tokens: list[int], step_size: int, progress: Any = None) -> Any:
    forward = Forward(model, make_prompt_cache(model))
    last = prefill(
        forward,
        Prompt(mx.array(tokens, dtype=mx.uint32)),
        step_size=step_size,
        progress=progress,
        stream=generation_stream(),
    )
    assert last.tokens.tolist() == tokens[-1:]
    return forward


@settings(max_examples=20, deadline=None)
@given(tokens=st.lists(st.integers(0, 257), min_size=1, max_size=40), step_size=st.integers(1, 41))
def test_chunks_make_no_difference(model: Any, tokens: list[int], step_size: int) -> None:
    chunked, whole = filled(model, tokens, step_size), filled(model, tokens, 2048)
    assert chunked.fed == whole.fed == len(tokens) - 1
    for one, other in zip(chunked.cache, whole.cache, strict=True):
        assert one.offset == other.offset
        for mine, theirs in zip(one.state, other.state, strict=True):
            assert (mine is None) == (theirs is None)
            if mine is not None:
                assert mx.allclose(mine, theirs, atol=1e-4)


@pytest.mark.parametrize("step_size", [3, 8, 100])
def test_chunks_make_no_difference_to_a_window(rotating_model: Any, step_size: int) -> None:
    tokens = list(range(30))
    one, other = filled(rotating_model, tokens, step_size), filled(rotating_model, tokens, 1)
    follow = mx.array([[5]])
    assert mx.allclose(
        rotating_model(follow, cache=one.cache),
        rotating_model(follow, cache=other.cache),
        atol=1e-4,
    )


def test_progress_names_every_chunk(model: Any) -> None:
    heard: list[tuple[int, int]] = []
    filled(model, list(range(8)), 3, lambda done, total: heard.append((done, total)))
    assert heard == [(0, 8), (3, 8), (6, 8), (7, 8)]


def test_single_token_needs_no_prefill(model: Any) -> None:
    assert filled(model, [1], 4).fed == 0


class Wide:
    """A layer whose inner activations, 8 kB a token, are all that is large."""

    layers = (None,)

    def __init__(self) -> None:
        self.up = mx.random.normal((4, 2048), key=mx.random.key(0))
        mx.eval(self.up)

    def __call__(self, tokens: mx.array, cache: Any = None) -> mx.array:
        x = mx.broadcast_to(tokens[..., None].astype(mx.float32), (*tokens.shape, 4))
        inner = mx.tanh(x @ self.up)
        keys, _ = cache[0].update_and_fetch(inner[:, None, :, :4], inner[:, None, :, 4:8])
        return keys[:, 0]


def test_chunks_bound_the_peak() -> None:
    """1600 tokens at once take 13 MB and more beyond the cache; chunks of 50 a part of that."""
    model = Wide()

    def excess(step_size: int) -> int:
        mx.clear_cache()
        mx.reset_peak_memory()
        forward = filled(model, [7] * 1600, step_size)
        mx.synchronize()
        assert forward.fed == 1599
        return mx.get_peak_memory() - mx.get_active_memory()

    assert excess(50) < excess(1600) / 4
