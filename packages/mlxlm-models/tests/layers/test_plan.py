from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlxlm_models.layers.attention import AttentionSpec
from mlxlm_models.layers.plan import Plan, ScaleGroup, Shard
from mlxlm_models.registry import get_architecture, list_architectures

TINY: dict[str, Any] = {
    "vocab_size": 16,
    "hidden_size": 16,
    "intermediate_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "num_experts": 4,
    "num_kv_shared_layers": 0,
    "partial_rotary_factor": 0.5,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 8,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 4,
    "v_head_dim": 4,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "n_shared_head": 2,
    "num_query_heads": [4, 2],
    "ffn_multipliers": [1.0, 2.0],
    "ffn_dim_divisor": 8,
    "block_configs": [{"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1.0}}] * 2,
}
OWN: dict[str, dict[str, Any]] = {"openelm": {"num_kv_heads": [2, 1]}}
"""Keys that mean something else to other types."""
TYPES = sorted({get_architecture(name).model_type for name in list_architectures()})


def build(model_type: str) -> Any:
    arch = get_architecture(model_type)
    config = {"model_type": model_type, "text_config": TINY, **TINY, **OWN.get(model_type, {})}
    model, _ = arch.create(config)
    return arch, model


def test_a_llama_is_divided_and_scaled_as_the_papers_say() -> None:
    arch, model = build("llama")
    plan = arch.plan(model)
    path = "model.layers.1."
    outputs = [f"{path}self_attn.{n}_proj" for n in "qkv"]
    outputs += [f"{path}mlp.{n}_proj" for n in ("gate", "up")]
    assert {name for name, shard in plan.shards.items() if name.startswith(path)} == {
        *outputs,
        f"{path}self_attn.o_proj",
        f"{path}mlp.down_proj",
    }
    assert all(plan.shards[name] == Shard("outputs") for name in outputs)
    assert plan.shards[f"{path}mlp.down_proj"] == Shard("inputs")
    assert [group for group in plan.scale_groups if group.within.startswith(path)] == [
        ScaleGroup(f"{path}input_layernorm", tuple(outputs[:3]), f"{path}self_attn"),
        ScaleGroup(f"{path}post_attention_layernorm", tuple(outputs[3:]), f"{path}mlp"),
        ScaleGroup(outputs[2], (f"{path}self_attn.o_proj",), f"{path}self_attn.o_proj"),
        ScaleGroup(outputs[4], (f"{path}mlp.down_proj",), f"{path}mlp.down_proj"),
    ]
    assert arch.adapters(model) == sorted(plan.shards)


@pytest.mark.parametrize("model_type", TYPES)
def test_every_plan_speaks_of_parts_that_the_model_has(model_type: str) -> None:
    arch, model = build(model_type)
    parts = dict(model.named_modules())
    parameters = dict(tree_flatten(model.parameters()))
    plan = arch.plan(model)
    assert plan.shards
    for path in plan.shards:
        assert path in parts or path in parameters, path
    for group in plan.scale_groups:
        assert {group.previous, *group.layers, group.within} <= parts.keys()
    assert set(plan.summed) <= parts.keys()
    assert set(arch.adapters(model)) >= {
        path
        for path, shard in plan.shards.items()
        if shard.along != "heads" and hasattr(parts[path], "to_quantized")
    }


SCALED = (
    "llama",
    "gemma2",
    "deepseek_v3",
    "deepseek_v32",
    "longcat_flash",
    "qwen2_moe",
    "olmo2",
    "cohere",
    "phi3",
    "gpt_oss",
)


@pytest.mark.parametrize("model_type", SCALED)
def test_moving_a_scale_changes_nothing(model_type: str) -> None:
    """What AWQ does, for each group: divide what comes out before, multiply what reads it."""
    arch, model = build(model_type)
    tokens = mx.array([[1, 5, 3, 7, 2]])
    modules = dict(model.named_modules())
    for module in modules.values():
        if "norm" in type(module).__name__.lower() and "weight" in module:
            shape = module.weight.shape
            module.weight = mx.random.normal(shape, key=mx.random.key(1)) * 0.1 + 1
    before = model(tokens)
    for number, group in enumerate(arch.plan(model).scale_groups):
        layers = [modules[path] for path in group.layers]
        scale = mx.random.uniform(0.5, 2, (layers[0].weight.shape[-1],), key=mx.random.key(number))
        for layer in layers:
            layer.weight = layer.weight * scale
        previous = modules[group.previous]
        if previous.weight.ndim == 1:
            shift = 1 if type(previous).__name__.startswith("Offset") else 0
            previous.weight = (previous.weight + shift) / scale - shift
        else:
            previous.weight = previous.weight / scale[..., None]
        if "bias" in previous:
            previous.bias = previous.bias / scale
    assert mx.allclose(model(tokens), before, atol=1e-4, rtol=1e-4).item()


def test_heads_with_keys_dealt_out_are_divided_round_by_round() -> None:
    """Member m then has keys m, m + 1, … and the heads of each round that use them."""
    arch, model = build("plamo")
    shards = arch.plan(model).shards
    assert shards["model.layers.0.self_attn.q_proj"] == Shard("outputs", (32, 32))
    assert shards["model.layers.0.self_attn.o_proj"] == Shard("inputs", (32, 32))
    assert shards["model.layers.0.self_attn.k_proj"] == Shard("outputs")


def test_heads_that_do_not_divide_are_refused() -> None:
    spec = AttentionSpec(hidden_size=8, heads=4, kv_heads=2, head_dim=2, rope=None)
    assert (spec.divided(2).heads, spec.divided(2).kv_heads) == (2, 1)
    with pytest.raises(ValueError, match="4 heads and 2 key-value heads cannot be divided among 4"):
        spec.divided(4)


def test_plans_add_and_move() -> None:
    one = Plan({"q": Shard("outputs")}, (ScaleGroup("v", ("o",), ""),), ("",))
    moved = one.under("a") + one.under("b")
    assert moved.shards.keys() == {"a.q", "b.q"}
    assert moved.scale_groups[1] == ScaleGroup("b.v", ("b.o",), "b")
    assert moved.summed == ("a", "b")
