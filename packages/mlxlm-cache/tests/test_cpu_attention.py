from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache import create_causal_mask, vectorized_attention

LENGTHS = [(1, 700), (70, 70), (65, 200), (150, 151)]
MASKS = ("none", "causal", "bool", "left", "heads", "additive", "minimum")


def random(*shape: int, seed: int) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed))


def make_mask(kind: str, batch: int, heads: int, length: int, size: int) -> Any:
    causal = create_causal_mask(length, size - length)
    # A row of nothing but padding sees itself, as in a batch's masks.
    padding = mx.minimum((mx.arange(batch) * 20)[:, None], mx.arange(size - length, size))
    padded = causal & (mx.arange(size) >= padding[:, None, :, None])
    return {
        "none": None,
        "causal": "causal",
        "bool": causal,
        "left": padded,
        "heads": mx.random.uniform(shape=(heads, length, size), key=mx.random.key(7)) > 0.5,
        "additive": mx.where(causal, random(length, size, seed=8), -mx.inf),
        "minimum": mx.where(padded, 0, mx.finfo(mx.float32).min),
    }[kind]


def reference(q: Any, k: Any, v: Any, mask: Any, sinks: Any = None, **options: Any) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, mask=mask, sinks=sinks, **options)


@settings(max_examples=60, deadline=None)
@given(
    mask=st.sampled_from(MASKS),
    lengths=st.sampled_from(LENGTHS),
    shared=st.sampled_from([1, 3]),
    batch=st.integers(1, 3),
    sinks=st.booleans(),
)
def test_it_equals_the_reference_kernel(
    mask: str, lengths: tuple[int, int], shared: int, batch: int, sinks: bool
) -> None:
    length, size = lengths
    heads = 2 * shared
    q = random(batch, heads, length, 64, seed=0) * 3
    k, v = random(batch, 2, size, 64, seed=1), random(batch, 2, size, 32, seed=2)
    used = make_mask(mask, batch, heads, length, size), random(heads, seed=3) * 5 if sinks else None
    out = vectorized_attention(q, k, v, *used, scale=0.2)
    expected = np.array(reference(q, k, v, *used, scale=0.2))
    np.testing.assert_allclose(out, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("mask", ["none", "causal", "left", "additive"])
def test_its_gradients_are_the_reference_kernels(mask: str) -> None:
    q, k, v = (
        random(2, 4, 70, 32, seed=0),
        random(2, 2, 90, 32, seed=1),
        random(2, 2, 90, 32, seed=2),
    )
    used = make_mask(mask, 2, 4, 70, 90), random(4, seed=3)
    weights = random(2, 4, 70, 32, seed=4)

    def gradients(attend: Any) -> Any:
        loss = lambda *qkv: (attend(*qkv, *used, scale=0.2) * weights).sum()  # noqa: E731
        return mx.grad(loss, argnums=(0, 1, 2))(q, k, v)

    for ours, theirs in zip(gradients(vectorized_attention), gradients(reference), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(np.array(theirs)).max())


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16])
def test_it_computes_in_float32_and_keeps_the_dtype(dtype: mx.Dtype) -> None:
    q, k = random(1, 4, 70, 64, seed=0).astype(dtype), random(1, 2, 90, 64, seed=1).astype(dtype)
    out = vectorized_attention(q, k, k, "causal", scale=0.2)
    floats, keys = q.astype(mx.float32), k.astype(mx.float32)
    exact = vectorized_attention(floats, keys, keys, "causal", scale=0.2).astype(dtype)
    assert out.dtype == dtype
    assert mx.array_equal(out, exact)


def test_large_scores_do_not_overflow() -> None:
    q, k = random(1, 2, 70, 64, seed=0) * 100, random(1, 2, 70, 64, seed=1) * 100
    out = vectorized_attention(q, k, k, "causal", scale=1.0)
    expected = reference(q, k, k, "causal", scale=1.0)
    assert mx.allclose(out, expected, rtol=1e-4, atol=0.1).item()


def test_a_score_function_comes_before_the_mask() -> None:
    q, k = random(1, 4, 70, 64, seed=0), random(1, 2, 90, 64, seed=1)
    mask = create_causal_mask(70, 20)
    out = vectorized_attention(q, k, k, mask, scale=0.5, score=lambda s: mx.tanh(s) * 5)
    keys = mx.repeat(k, 2, axis=1)
    scores = mx.where(mask, mx.tanh(q @ keys.swapaxes(-1, -2) * 0.5) * 5, -mx.inf)
    expected = mx.softmax(scores, axis=-1) @ keys
    np.testing.assert_allclose(out, expected, atol=1e-5)
