from typing import Any

import mlx.core as mx
from mlxlm_cache import CacheList, KVCache
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.mlp import MLPSpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.shortcut import ShortcutBlockSpec

SPEC = ShortcutBlockSpec(
    attention=AttentionSpec(hidden_size=8, heads=2, kv_heads=1, head_dim=4, rope=RopeSpec(4)),
    mlp=MLPSpec(hidden_size=8, intermediate_size=6, activation="silu"),
    experts=MLPSpec(hidden_size=8, intermediate_size=5, activation="silu"),
    norm=NormSpec(1e-5),
)
X = mx.random.normal((2, 4, 8), key=mx.random.key(0))


def test_experts_read_the_first_half_and_are_added_after_the_second() -> None:
    block: Any = SPEC.build()
    h = X + block.self_attn[0](block.input_layernorm[0](X), "causal")
    read = block.post_attention_layernorm[0](h)
    h = h + block.mlps[0](read)
    h = h + block.self_attn[1](block.input_layernorm[1](h), "causal")
    h = h + block.mlps[1](block.post_attention_layernorm[1](h)) + block.mlp(read)
    assert mx.allclose(block(X, "causal"), h, atol=1e-6).item()


def test_each_half_has_a_cache() -> None:
    block: Any = SPEC.build()
    cache = block.make_cache()
    assert type(cache) is CacheList
    assert [type(c) for c in cache] == [KVCache, KVCache]
    parts = [block(X[:, i : i + 1], None, cache) for i in range(4)]
    assert [c.offset for c in cache] == [4, 4]
    assert mx.allclose(mx.concatenate(parts, axis=1), block(X, "causal"), atol=1e-5).item()
