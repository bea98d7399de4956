from typing import Any

import mlx.core as mx
from mlxlm_models.quantization import quantize_layers, read_settings
from mlxlm_models.registry import get_architecture

CONFIG = {
    "model_type": "gpt_oss",
    "vocab_size": 16,
    "hidden_size": 64,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "num_local_experts": 2,
    "num_experts_per_tok": 1,
}
PREFIX = "model.layers.0.mlp.experts."


def published(weight: mx.array) -> tuple[mx.array, mx.array]:
    """Return MXFP4 blocks, (experts, outputs, inputs / 32, 16) bytes, and scales."""
    packed, scales = mx.quantize(weight, group_size=32, bits=4, mode="mxfp4")
    blocks = packed.view(mx.uint8).reshape(*weight.shape[:-1], -1, 16)
    return blocks, scales


def test_published_mxfp4_blocks_are_the_packed_weights_of_mlx() -> None:
    arch = get_architecture("gpt_oss")
    model, config = arch.create(CONFIG)
    gate_up = mx.random.normal((2, 64, 64), key=mx.random.key(0))
    down = mx.random.normal((2, 64, 32), key=mx.random.key(1))
    weights: dict[str, mx.array] = {}
    for name, weight in (("gate_up_proj", gate_up), ("down_proj", down)):
        blocks, scales = published(weight)
        weights |= {f"{PREFIX}{name}_blocks": blocks, f"{PREFIX}{name}_scales": scales}
        weights[f"{PREFIX}{name}_bias"] = mx.zeros(weight.shape[:2])
    result = arch.sanitize(weights, config)
    settings = read_settings({"quantization_config": {"quant_method": "mxfp4"}})
    quantize_layers(model, result, settings, "the checkpoint")
    experts: Any = model.layers[0].mlp.experts
    model.load_weights(list(result.items()), strict=False)
    for name, weight in (
        ("gate_proj", gate_up[:, ::2]),
        ("up_proj", gate_up[:, 1::2]),
        ("down_proj", down),
    ):
        layer = experts[name]
        packed, scales = mx.quantize(weight, group_size=32, bits=4, mode="mxfp4")
        assert mx.array_equal(layer.weight, packed).item()
        assert mx.array_equal(layer.scales, scales).item()
        assert layer.bias.shape == weight.shape[:2]


def test_a_config_without_rope_settings_means_the_published_ones() -> None:
    made = get_architecture("gpt_oss").config.from_dict(CONFIG)
    assert made.rope_values("full_attention")["factor"] == 32.0
    assert made.rope_values("full_attention")["rope_theta"] == 150000.0
