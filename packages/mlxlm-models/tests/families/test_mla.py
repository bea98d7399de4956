from types import SimpleNamespace
from typing import Any

import mlx.core as mx
from mlxlm_models.families.mla import split_key_value_heads
from mlxlm_models.registry import get_architecture

CONFIG: Any = SimpleNamespace(
    num_attention_heads=2, qk_nope_head_dim=32, v_head_dim=16, kv_lora_rank=64
)
WEIGHT = mx.random.normal((2 * 48, 64), key=mx.random.key(0))


def test_the_up_projection_is_cut_into_keys_and_values() -> None:
    result = split_key_value_heads({"a.kv_b_proj.weight": WEIGHT, "b": WEIGHT}, CONFIG)
    heads = WEIGHT.reshape(2, 48, 64)
    assert result.keys() == {"a.embed_q.weight", "a.unembed_out.weight", "b"}
    assert mx.array_equal(result["a.embed_q.weight"], heads[:, :32].swapaxes(1, 2)).item()
    assert mx.array_equal(result["a.unembed_out.weight"], heads[:, 32:]).item()


def test_a_packed_one_stays_packed_where_its_rows_are_whole() -> None:
    for bits in (3, 4, 8):
        packed, scales, biases = mx.quantize(WEIGHT, group_size=32, bits=bits)
        parts = {"weight": packed, "scales": scales, "biases": biases}
        given = {f"kv_b_proj.{name}": value for name, value in parts.items()}
        result = split_key_value_heads({f"a.{k}": v for k, v in given.items()}, CONFIG)
        whole = mx.dequantize(packed, scales, biases, group_size=32, bits=bits)
        heads = whole.reshape(2, 48, 64)
        assert mx.allclose(result["a.embed_q.weight"], heads[:, :32].swapaxes(1, 2)).item()
        values = mx.dequantize(
            *(result[f"a.unembed_out.{name}"] for name in parts), group_size=32, bits=bits
        )
        assert mx.allclose(values, heads[:, 32:]).item()
        assert "a.embed_q.scales" not in result


def test_the_converted_layout_passes_through() -> None:
    weights = {"a.embed_q.weight": WEIGHT, "a.unembed_out.weight": WEIGHT}
    assert split_key_value_heads(weights, CONFIG).keys() == weights.keys()


def test_extra_layers_for_further_tokens_are_dropped() -> None:
    names = {"model.layers.61.embed_tokens.weight": WEIGHT, "model.norm.weight": WEIGHT}
    config = SimpleNamespace(num_hidden_layers=61, tie_word_embeddings=False)
    assert get_architecture("deepseek_v3").sanitize(names, config).keys() == {"model.norm.weight"}


def test_kimi_k2_is_deepseek_v3() -> None:
    assert get_architecture("kimi_k2") is get_architecture("deepseek_v3")
