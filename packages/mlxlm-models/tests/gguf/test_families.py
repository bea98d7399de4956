"""Each architecture: from tensors as llama.cpp's conversion stores them, transformers' logits."""

import math
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from mlxlm_models.gguf.families import FAMILIES
from mlxlm_models.loading import load_model
from numpy.typing import NDArray

Array = NDArray[np.float32]

# What a file doesn't say because llama.cpp has it in its code.
BUILT_IN = {
    "gemma2": {"query_pre_attn_scalar": 12},
    "gemma3": {
        "query_pre_attn_scalar": 12,
        "sliding_window_pattern": 2,
        "rope_local_base_freq": 100.0,
    },
}
SETTINGS = {
    "num_hidden_layers": "block_count",
    "max_position_embeddings": "context_length",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "head_dim": "attention.key_length",
    "rope_theta": "rope.freq_base",
    "sliding_window": "attention.sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
MODULES = (
    *("attn_norm", "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output"),
    *("attn_q_norm", "attn_k_norm", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"),
    *("post_attention_norm", "post_ffw_norm"),
)
DEFAULT_THETA = {"gemma3": 1e6, "smollm3": 2e6}


def paired(values: Array, heads: int) -> Array:
    """Put rows of a head half a head apart next to each other, as for interleaved RoPE."""
    halves = values.reshape(heads, 2, -1, *values.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))


def converted(golden: Any, architecture: str) -> dict[str, tuple[Type, Array]]:
    family, config = FAMILIES[architecture], golden.config
    stored = [
        f"blk.{i}.{module}.{kind}"
        for i in range(config["num_hidden_layers"])
        for module in MODULES
        for kind in ("weight", "bias")
    ]
    stored += ["token_embd.weight", "output_norm.weight", "output.weight"]
    names = {family.name(name): name for name in stored}
    tensors = {}
    for name, array in golden.weights().items():
        values = np.array(array)
        if family.permuted and ("q_proj" in name or "k_proj" in name):
            key = "num_attention_heads" if "q_proj" in name else "num_key_value_heads"
            values = paired(values, config[key])
        if name.endswith("norm.weight"):
            values = values + np.float32(family.norm_offset)
        tensors[names[name]] = (Type.F32, values)
    return tensors


def described(config: dict[str, Any], architecture: str) -> dict[str, Any]:
    settings = {ours: config.get(theirs) for theirs, ours in SETTINGS.items()}
    if settings["rope.freq_base"] is None:
        settings["rope.freq_base"] = DEFAULT_THETA.get(architecture, 10000.0)
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind in ("linear", "yarn"):
        settings["rope.scaling.type"] = kind
        settings["rope.scaling.factor"] = scaling["factor"]
    original = scaling.get("original_max_position_embeddings")
    settings["rope.scaling.original_context_length"] = original
    if partial := config.get("partial_rotary_factor"):
        head_dim = config["hidden_size"] // config["num_attention_heads"]
        settings["rope.dimension_count"] = int(head_dim * partial)
        settings["rope.scaling.original_context_length"] = config[
            "original_max_position_embeddings"
        ]
    return settings


def rope_tensors(config: dict[str, Any]) -> dict[str, tuple[Type, Array]]:
    scaling = config.get("rope_scaling") or {}
    match scaling.get("rope_type", scaling.get("type")):
        case "longrope":
            return {
                f"rope_factors_{way}.weight": (
                    Type.F32,
                    np.array(scaling[f"{way}_factor"], np.float32),
                )
                for way in ("long", "short")
            }
        case "llama3":
            dims = config["hidden_size"] // config["num_attention_heads"]
            factors = []
            for i in range(0, dims, 2):
                wave = 2 * math.pi * config["rope_theta"] ** (i / dims)
                turns = scaling["original_max_position_embeddings"] / wave
                low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
                smooth = min(max((turns - low) / (high - low), 0), 1)
                factors.append(1 / ((1 - smooth) / scaling["factor"] + smooth))
            return {"rope_freqs.weight": (Type.F32, np.array(factors, np.float32))}
    return {}


@pytest.mark.parametrize(
    ("case", "architecture"),
    [
        ("llama", "llama"),
        ("llama_tied", "llama"),
        ("llama_biases", "llama"),
        ("llama_linear", "llama"),
        ("llama_yarn", "llama"),
        ("llama_llama3", "llama"),
        ("smollm3", "smollm3"),
        ("qwen2", "qwen2"),
        ("qwen3", "qwen3"),
        ("gemma", "gemma"),
        ("gemma2", "gemma2"),
        ("gemma3_text", "gemma3"),
        ("phi3", "phi3"),
        ("phi3_partial_longrope", "phi3"),
    ],
)
def test_logits_are_transformers(
    case: str, architecture: str, golden: Any, write: Any, relative_error: Any
) -> None:
    expected = golden(case)
    tensors = converted(expected, architecture) | rope_tensors(expected.config)
    path = write(tensors, architecture, described(expected.config, architecture))
    model, _ = load_model(path, model_config=BUILT_IN.get(architecture))
    logits = model(expected.tokens)[0]
    assert relative_error(logits, expected.logits("prefill")) < 1e-4


def test_every_family_is_registered() -> None:
    from mlxlm_models.registry import list_architectures

    assert {family.model_type for family in FAMILIES.values()} <= set(list_architectures())


def test_embedding_is_one_matrix_for_input_and_output(write: Any, llama: Any) -> None:
    """A tied Q8_0 embedding stays packed and serves as the head."""
    path = write(llama(Type.Q8_0))
    packed, _ = load_model(path, cpu_weights="packed")
    plain, _ = load_model(path, cpu_weights="float32")
    tokens = mx.arange(48)[None]
    assert "scales" in packed.model.embed_tokens
    assert mx.allclose(packed(tokens), plain(tokens), rtol=1e-3, atol=1e-3)
