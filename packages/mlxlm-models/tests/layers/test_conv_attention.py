from typing import Any

import mlx.core as mx
from mlxlm_cache import ArraysCache, CacheList, KVCache
from mlxlm_models.layers.conv_attention import ConvAttentionSpec
from mlxlm_models.layers.rope import RopeSpec

SPEC = ConvAttentionSpec(
    hidden_size=8, heads=2, kv_heads=1, head_dim=4, rope=RopeSpec(4), fused="rows", taps=2
)


def build() -> Any:
    attention: Any = SPEC.build()
    attention.conv_k = mx.random.normal((1, 1, 1, 1, 2))
    attention.conv_v = mx.random.normal((1, 1, 1, 1, 2))
    return attention


def test_the_cache_holds_the_last_raw_keys_and_the_mixed_ones() -> None:
    attention = build()
    cache = attention.make_cache()
    assert [type(c) for c in cache] == [ArraysCache, KVCache]
    x = mx.random.normal((1, 5, 8))
    attention(x, "causal", cache)
    _, keys, values = attention.read(x)
    assert mx.array_equal(cache[0][0], keys[:, :, -1:]).item()
    assert mx.array_equal(cache[0][1], values[:, :, -1:]).item()
    mixed = (
        attention.conv_v.flatten()[0] * values[:, :, 3]
        + attention.conv_v.flatten()[1] * (values[:, :, 4])
    )
    assert mx.allclose(cache[1].state[1][:, :, 4], mixed, atol=1e-6).item()


def test_a_rollback_forgets_the_tokens_taken_back() -> None:
    attention = build()
    x = mx.random.normal((1, 9, 8))
    cache: CacheList = attention.make_cache()
    attention(x[:, :4], "causal", cache)
    cache.checkpoint(4)  # type: ignore[operator]
    attention(x[:, 4:7], "causal", cache)
    cache.trim(2)
    again = attention(x[:, 5:], "causal", cache)
    whole = attention(x, "causal", None)
    assert mx.allclose(again, whole[:, 5:], atol=1e-5).item()
