from dataclasses import replace
from typing import Any

import mlx.core as mx
import pytest
from mlxlm_cache import CacheList, KVCache, create_causal_mask
from mlxlm_models.layers.indexer import IndexerSpec
from mlxlm_models.layers.mla import MLASpec
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.rope import RopeSpec
from mlxlm_models.layers.sparse_mla import SparseMLASpec

ROPE = RopeSpec(8)
SPEC = SparseMLASpec(
    hidden_size=16,
    heads=2,
    kv_lora_rank=32,
    q_lora_rank=12,
    nope_dim=8,
    rope_dim=8,
    value_dim=8,
    rope=ROPE,
    norm=NormSpec(1e-6),
    indexer=IndexerSpec(hidden_size=16, query_size=12, heads=4, head_dim=16, top_k=3, rope=ROPE),
)
X = mx.random.normal((2, 7, 16), key=mx.random.key(0))
CAUSAL = create_causal_mask(7)


def built(**changes: Any) -> Any:
    mx.random.seed(1)
    return replace(SPEC, **changes).build()


def plain(layer: Any) -> Any:
    """Return latent attention to everything, of the same weights."""
    names = MLASpec.__dataclass_fields__
    result: Any = MLASpec(**{name: getattr(SPEC, name) for name in names}).build()
    own = {k: v for k, v in layer.parameters().items() if k != "indexer"}
    result.update(own)
    return result


def test_it_is_latent_attention_to_what_was_chosen() -> None:
    layer = built()
    out, chosen = layer.choose_and_attend(X, CAUSAL, None, None)
    dense = plain(layer)
    for row in range(2):
        for query in range(7):
            seen: Any = set(chosen[row, query].tolist()) & set(range(query + 1))
            mask = mx.array([[key in seen for key in range(7)]] * 7)
            alone = dense(X[row : row + 1], mask)[0, query]
            assert mx.allclose(out[row, query], alone, atol=1e-5).item()


@pytest.mark.parametrize("sizes", [[7], [3, 4], [1] * 7, [5, 1, 1]])
def test_steps_and_chunks_are_the_whole(sizes: list[int]) -> None:
    layer = built()
    whole = layer(X, CAUSAL)
    cache, parts, start = layer.make_cache(), [], 0
    assert [type(c) for c in cache] == [KVCache, KVCache]
    for size in sizes:
        mask = None if size == 1 else create_causal_mask(size, start)
        parts.append(layer(X[:, start : start + size], mask, cache))
        start += size
    assert mx.allclose(mx.concatenate(parts, axis=1), whole, atol=1e-5).item()


def test_without_an_indexer_another_layer_chooses() -> None:
    chooser, follower = built(), built(indexer=None)
    follower.update({k: v for k, v in chooser.parameters().items() if k != "indexer"})
    out, chosen = chooser.choose_and_attend(X, CAUSAL, None, None)
    again, same = follower.choose_and_attend(X, CAUSAL, None, chosen)
    assert same is chosen
    assert mx.allclose(out, again, atol=1e-6).item()
    assert type(follower.make_cache()) is KVCache


def test_packed_caches_serve() -> None:
    layer = built(kv_lora_rank=64, rope_dim=32, rope=RopeSpec(32), nope_dim=32)
    layer.indexer = replace(SPEC.indexer, head_dim=32, rope=RopeSpec(32)).build()  # type: ignore[type-var]
    cache = layer.make_cache()
    layer(X[:, :6], CAUSAL[:6, :6], cache)
    packed = CacheList(*(c.to_quantized(group_size=32, bits=8) for c in cache))
    exact = layer(X, CAUSAL)[:, -1]
    assert mx.allclose(layer(X[:, 6:], None, packed)[:, -1], exact, atol=0.05).item()
