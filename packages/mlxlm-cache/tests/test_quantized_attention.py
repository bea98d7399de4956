import gc
import importlib
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxlm_cache import (
    KVCache,
    QuantizedKVCache,
    create_causal_mask,
    quantized_scaled_dot_product_attention,
    scaled_dot_product_attention,
)

floats = importlib.import_module("mlxlm_cache.float_attention")
module = importlib.import_module("mlxlm_cache.quantized_attention")
HEADS, KV = 4, 2
SINKS = mx.array([0.0, 1.0, -2.0, 4.0])


def make_mask(kind: str, length: int, size: int) -> tuple[Any, np.ndarray | None]:
    """Return a mask to pass for a batch of two, and the array that it means."""
    causal = create_causal_mask(length, size - length)
    first = mx.minimum(mx.array([[0], [6]]), mx.arange(size - length, size))
    left = causal & (mx.arange(size) >= first[:, None, :, None])
    passed = {
        "none": None,
        "causal": "causal",
        "bool": causal,
        "left padding": left,
        "additive": mx.where(left, 0.5, -1e9),
    }[kind]
    if passed is None:
        return None, None
    return passed, np.array(causal if isinstance(passed, str) else passed)


WAYS = {
    "packed": (1 << 20, floats._fused),
    "unpacked, fused": (0, floats._fused),
    "unpacked, on CPU": (0, floats._on_cpu),
}


@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=40, deadline=None)
@given(
    bits=st.sampled_from([2, 3, 4, 5, 6, 8]),
    group_size=st.sampled_from([32, 64, 128]),
    mask=st.sampled_from(["none", "causal", "bool", "left padding", "additive"]),
    length=st.sampled_from([1, 9, 70]),
    sinks=st.booleans(),
    budget=st.sampled_from([1, 300, 1 << 26]),
)
def test_R12_it_equals_attention_over_the_unpacked_values(
    way: str,
    bits: int,
    group_size: int,
    mask: str,
    length: int,
    sinks: bool,
    budget: int,
    attention: Callable[..., np.ndarray],
) -> None:
    """Every mask, with sinks, for a prompt and for a token, however it is computed."""
    size = max(length, 9)
    options: Any = {"group_size": group_size, "bits": bits}
    q = mx.random.normal((2, HEADS, length, 128), key=mx.random.key(0))
    k, v = (mx.random.normal((2, KV, size, 128), key=mx.random.key(i)) for i in (1, 2))
    keys: Any = mx.quantize(k, **options)
    values: Any = mx.quantize(v, **options)
    used = SINKS if sinks else None
    passed, meant = make_mask(mask, length, size)
    with pytest.MonkeyPatch.context() as patch:
        packed_rows, kernel = WAYS[way]
        patch.setattr(module, "_packed_rows", lambda: packed_rows)
        patch.setattr(module, "float_attention", lambda: kernel)
        patch.setattr(module, "MAX_SCORES", budget)
        out = quantized_scaled_dot_product_attention(
            q, keys, values, scale=0.1, mask=passed, sinks=used, **options
        )
    expected = attention(
        q,
        mx.dequantize(*keys, **options),
        mx.dequantize(*values, **options),
        0.1,
        meant,
        None if used is None else np.array(used),
    )
    np.testing.assert_allclose(out, expected, atol=1e-5)


@pytest.mark.parametrize("length", [1, 40])
def test_scores_can_be_changed(length: int) -> None:
    q = mx.random.normal((1, HEADS, length, 64), key=mx.random.key(0))
    k = mx.random.normal((1, KV, 40, 64), key=mx.random.key(1))
    cache = QuantizedKVCache()
    keys, values = cache.update_and_fetch(k, k)
    out = scaled_dot_product_attention(q, keys, values, cache, 0.2, "causal", score=mx.tanh)
    unpacked = mx.dequantize(*keys, group_size=64, bits=8)
    expected = scaled_dot_product_attention(
        q, unpacked, unpacked, KVCache(), 0.2, "causal", score=mx.tanh
    )
    np.testing.assert_allclose(out, expected, atol=1e-5)


def test_R13_a_quantized_prompt_takes_less_memory_than_a_float_one() -> None:
    """A stack with few query heads, so that keys and values are what it holds."""
    layers, chunk, chunks = 8, 256, 8
    weights = [mx.random.normal((128, 4 * 128), key=mx.random.key(i)) / 12 for i in range(layers)]
    chunk_states = mx.random.normal((1, chunk, 128), key=mx.random.key(99))
    mx.eval(weights, chunk_states)

    def peak(caches: list[Any]) -> int:
        mx.reset_peak_memory()
        gc.collect()
        before = mx.get_active_memory()
        for _ in range(chunks):
            h = chunk_states
            for weight, cache in zip(weights, caches, strict=True):
                q, k, v, _ = (
                    x.reshape(1, chunk, 2, 64).transpose(0, 2, 1, 3)
                    for x in mx.split(h @ weight, 4, axis=-1)
                )
                keys, values = cache.update_and_fetch(k, v)
                out = scaled_dot_product_attention(q, keys, values, cache, 0.125, "causal")
                h = h + out.transpose(0, 2, 1, 3).reshape(h.shape)
            mx.eval(h, [cache.state for cache in caches])
        return mx.get_peak_memory() - before

    plain = peak([KVCache() for _ in range(layers)])
    assert peak([QuantizedKVCache(bits=8) for _ in range(layers)]) < 0.75 * plain
    assert peak([QuantizedKVCache(bits=4) for _ in range(layers)]) < 0.65 * plain


def test_an_unknown_mask_is_an_error() -> None:
    x = mx.zeros((1, 1, 2, 64))
    packed = mx.quantize(x, group_size=64, bits=8)
    with pytest.raises(ValueError, match='mask must be an array, "causal" or None, not'):
        quantized_scaled_dot_product_attention(x, packed, packed, scale=1.0, mask="full")  # type: ignore[arg-type]
