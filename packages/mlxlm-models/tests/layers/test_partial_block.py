from typing import Any

import mlx.core as mx
import pytest
from mlxlm_models.layers.norms import NormSpec
from mlxlm_models.layers.partial_block import LinearHalf, PartialBlockSpec
from mlxlm_models.registry import get_architecture

NORM = NormSpec(1e-5)


def test_a_block_without_halves_gives_what_it_reads(parameters: Any) -> None:
    block = PartialBlockSpec(hidden_size=8, norm=NORM).build()
    x = mx.random.normal((1, 3, 8))
    assert parameters(block) == {}
    assert mx.array_equal(block(x), x).item()


def test_a_linear_map_may_stand_for_either_half() -> None:
    half = LinearHalf(8)
    block: Any = PartialBlockSpec(hidden_size=8, norm=NORM, linear_attention=half, mlp=half).build()
    x = mx.random.normal((1, 3, 8))
    h = x + block.self_attn.linear(block.input_layernorm(x))
    expected = h + block.mlp.linear(block.post_attention_layernorm(h))
    assert mx.allclose(block(x), expected, atol=1e-6).item()
    assert not block.attends


def test_only_layers_that_attend_have_caches(golden: Any) -> None:
    data = golden("nemotron_nas")
    model: Any = get_architecture("nemotron-nas").create(data.config)[0]
    cache = model.make_cache()
    assert len(cache) == 3
    model(data.tokens, cache)
    assert {c.offset for c in cache} == {24}
    with pytest.raises(ValueError, match=r"5 layers for a model of which 3 attend"):
        model(data.tokens, [None] * 5)
