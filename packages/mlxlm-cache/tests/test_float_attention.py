import importlib
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlxlm_cache import create_causal_mask, fast_exp_pays

module = importlib.import_module("mlxlm_cache.float_attention")
KERNELS = {"on CPU": module._on_cpu, "fused": module._fused}


def random(*shape: int, seed: int) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed))


def test_the_backend_chooses_once() -> None:
    expected = module._on_cpu if fast_exp_pays() else module._fused
    assert module.float_attention() is expected
    assert module.float_attention.cache_info().currsize == 1


@pytest.mark.parametrize(("length", "calls"), [(8, 0), (80, 1)])
def test_few_scores_go_to_the_fused_kernel(
    length: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    original = module.vectorized_attention

    def recorded(*arguments: Any, **options: Any) -> Any:
        used.append(arguments)
        return original(*arguments, **options)

    monkeypatch.setattr(module, "vectorized_attention", recorded)
    q = random(1, 2, length, 32, seed=0)
    out = module._on_cpu(q, q, q, "causal", None, scale=0.2, score=None)
    expected = module._fused(q, q, q, "causal", None, scale=0.2, score=None)
    assert len(used) == calls
    np.testing.assert_allclose(out, expected, atol=1e-5)


@pytest.mark.parametrize("length", [4, 80])
@pytest.mark.parametrize("kernel", KERNELS)
def test_scores_can_be_changed(kernel: str, length: int) -> None:
    q, mask = random(1, 2, length, 32, seed=0), create_causal_mask(length)
    out = KERNELS[kernel](q, q, q, "causal", None, scale=0.2, score=mx.tanh)
    scores = mx.where(mask, mx.tanh(q @ q.swapaxes(-1, -2) * 0.2), -mx.inf)
    np.testing.assert_allclose(out, mx.softmax(scores, axis=-1) @ q, atol=1e-5)


@pytest.mark.parametrize("length", [4, 80])
@pytest.mark.parametrize("kernel", KERNELS)
def test_an_additive_mask_and_sinks_of_another_dtype_do(kernel: str, length: int) -> None:
    q = random(1, 2, length, 32, seed=0).astype(mx.float16)
    mask, sinks = random(length, length, seed=1), random(2, seed=2)
    out = KERNELS[kernel](q, q, q, mask, sinks, scale=0.2, score=None)
    exact = KERNELS[kernel](
        *(x.astype(mx.float32) for x in (q, q, q)), mask, sinks, scale=0.2, score=None
    )
    assert out.dtype == mx.float16
    np.testing.assert_allclose(out, exact, atol=0.01)
