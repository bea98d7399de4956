from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import KVCache, RotatingKVCache
from mlxlm_models.layers.loop import HeadGate
from mlxlm_models.registry import get_architecture


def test_each_head_has_its_own_gate() -> None:
    gate: Any = HeadGate(2, 3)
    gate.weight, gate.bias = mx.random.normal((2, 3)), mx.random.normal((2,))
    queries = mx.random.normal((1, 2, 5, 3))
    out = gate(queries)
    assert out.shape == (1, 2, 5, 1)
    expected = mx.sigmoid(queries[0, 1, 4] @ gate.weight[1] + gate.bias[1])
    assert mx.allclose(out[0, 1, 4, 0], expected, atol=1e-6).item()


def test_later_loops_have_rotating_caches_of_their_own(golden: Any) -> None:
    data = golden("iquestloopcoder_thrice")
    model: Any = get_architecture("iquestloopcoder").create(data.config)[0]
    cache = model.make_cache()
    assert [type(c) for c in cache] == [KVCache] * 2 + [RotatingKVCache] * 4
    assert {c.max_size for c in cache[2:]} == {8}
    with pytest.raises(ValueError, match=r"2 layers for 3 loops through 2"):
        model(data.tokens, [None] * 2)
