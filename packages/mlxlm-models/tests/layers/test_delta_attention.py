from typing import Any

import mlx.core as mx
import pytest
from mlxlm_models.layers.delta_attention import DeltaAttentionSpec
from mlxlm_models.layers.masks import MaskPlan
from mlxlm_models.layers.norms import NormSpec


def spec(low_rank: bool = True) -> DeltaAttentionSpec:
    return DeltaAttentionSpec(
        hidden_size=16,
        heads=2,
        head_dim=8,
        kernel=4,
        norm=NormSpec(1e-5),
        low_rank=low_rank,
        lower_bound=None if low_rank else -5.0,
    )


def build(low_rank: bool = True) -> Any:
    layer: Any = spec(low_rank).build()
    for name in "qkv":
        layer[f"{name}_conv1d"].weight = mx.random.normal((16, 4, 1))
    layer.A_log, layer.dt_bias = mx.random.normal((2,)), mx.random.normal((16,))
    return layer


@pytest.mark.parametrize("low_rank", [True, False])
def test_states_after_each_token_are_kept_to_go_back_to(low_rank: bool) -> None:
    layer, x = build(low_rank), mx.random.normal((1, 9, 16))
    cache = layer.make_cache()
    layer(x[:, :4], None, cache)
    cache.checkpoint(8)
    layer(x[:, 4:], None, cache)
    cache.trim(3)
    again = layer(x[:, 6:], None, cache)
    assert cache.offset == 9
    assert mx.allclose(again, layer(x)[:, 6:], atol=1e-5).item()


def test_padding_on_either_side_leaves_the_state_alone() -> None:
    layer, x = build(), mx.random.normal((1, 7, 16))
    alone = layer.make_cache()
    expected = layer(x, None, alone)
    noise = mx.random.normal((1, 2, 16))
    rows = mx.concatenate([mx.concatenate([x, noise], axis=1), mx.concatenate([noise, x], axis=1)])
    right, left = layer.make_cache(), layer.make_cache()
    right.prepare(lengths=[7], right_padding=[2])
    left.prepare(left_padding=[2])
    plan = MaskPlan([spec()])
    for cache, row, part in ((right, rows[:1], slice(0, 7)), (left, rows[1:], slice(2, 9))):
        (mask,) = plan.masks(row, [cache])
        found = layer(row, mask, cache)
        assert mx.allclose(found[:, part], expected, atol=1e-5).item()
        for slot, other in zip(cache.slots, alone.slots, strict=True):
            assert mx.allclose(slot, other, atol=1e-5).item()


def test_there_is_no_mask_without_padding_or_a_cache() -> None:
    x = mx.zeros((1, 5, 16))
    assert MaskPlan([spec()]).masks(x, [None]) == [None]
    assert MaskPlan([spec()]).masks(x, [build().make_cache()]) == [None]


def test_heads_that_do_not_divide_are_refused() -> None:
    assert spec().divided(2).heads == 1
    with pytest.raises(ValueError, match="2 heads cannot be divided among 3"):
        spec().divided(3)
