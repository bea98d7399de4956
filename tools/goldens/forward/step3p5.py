"""Step 3.5 Flash (StepFun, 2026): the repository's modeling_step3p5."""

import math
from typing import Any

import numpy as np

from . import blocks as nn


def step3p5(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab, eps = config["hidden_size"], config["vocab_size"], config["rms_norm_eps"]
    size = config["head_dim"]
    sparse = {int(layer) for layer in config["moe_layers_enum"].split(",")}
    x = weight("model.embed_tokens.weight", vocab, hidden)[tokens]
    for layer in range(config["num_hidden_layers"]):
        at, kind = f"model.layers.{layer}", config["layer_types"][layer]
        windowed = kind == "sliding_attention"
        sizes = config["attention_other_setting"] if windowed else config
        q_heads, kv_heads = sizes["num_attention_heads"], sizes["num_attention_groups"]
        h = nn.rms_norm(weight, f"{at}.input_layernorm", x, eps, offset=1.0)
        name = f"{at}.self_attn"
        q = nn.heads(nn.linear(weight, f"{name}.q_proj", h, q_heads * size), q_heads)
        k = nn.heads(nn.linear(weight, f"{name}.k_proj", h, kv_heads * size), kv_heads)
        v = nn.heads(nn.linear(weight, f"{name}.v_proj", h, kv_heads * size), kv_heads)
        q = _rotate(config, layer, nn.rms_norm(weight, f"{name}.q_norm", q, eps, offset=1.0))
        k = _rotate(config, layer, nn.rms_norm(weight, f"{name}.k_norm", k, eps, offset=1.0))
        mask = nn.causal(len(x), config["sliding_window"] if windowed else None)
        out = nn.attend(q, k, v, mask)
        if config["use_head_wise_attn_gate"]:
            gate = nn.sigmoid(nn.linear(weight, f"{name}.g_proj", h, q_heads))
            out = out * gate.T[..., None]
        x = x + nn.linear(weight, f"{name}.o_proj", nn.joined(out), hidden)
        h = nn.rms_norm(weight, f"{at}.post_attention_layernorm", x, eps, offset=1.0)
        limit = config["swiglu_limits_shared"][layer]
        if layer in sparse:
            x = x + _mlp(weight, f"{at}.share_expert", h, config["share_expert_dim"], limit)
            x = x + _experts(config, weight, f"{at}.moe", h, config["swiglu_limits"][layer])
        else:
            x = x + _mlp(weight, f"{at}.mlp", h, config["intermediate_size"], limit)
    x = nn.rms_norm(weight, "model.norm", x, eps, offset=1.0)
    return nn.linear(weight, "lm_head", x, vocab)


def _rotate(config: dict[str, Any], layer: int, x: nn.Array) -> nn.Array:
    base, dims = (
        config["rope_theta"][layer],
        int(x.shape[-1] * config["partial_rotary_factors"][layer]),
    )
    scaling = config["rope_scaling"]
    if scaling is None or config["layer_types"][layer] not in config["yarn_only_types"]:
        return nn.rotate(x, base, dims)
    # Llama 3's.
    frequencies = base ** (-np.arange(dims // 2) / (dims // 2))
    turns = scaling["original_max_position_embeddings"] * frequencies / (2 * math.pi)
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    kept = np.clip((turns - low) / (high - low), 0, 1)
    frequencies = frequencies * (kept + (1 - kept) / scaling["factor"])
    return nn.rotate_by(x, frequencies)


def _bounded(gate: nn.Array, up: nn.Array, limit: float | None) -> nn.Array:
    gate = nn.silu(gate)
    return np.minimum(gate, limit) * np.clip(up, -limit, limit) if limit else gate * up


def _mlp(weight: nn.Weight, at: str, x: nn.Array, inner: int, limit: float | None) -> nn.Array:
    gate = nn.linear(weight, f"{at}.gate_proj", x, inner)
    up = nn.linear(weight, f"{at}.up_proj", x, inner)
    return nn.linear(weight, f"{at}.down_proj", _bounded(gate, up, limit), x.shape[-1])


def _experts(
    config: dict[str, Any], weight: nn.Weight, at: str, x: nn.Array, limit: float | None
) -> nn.Array:
    count, inner, hidden = config["moe_num_experts"], config["moe_intermediate_size"], x.shape[-1]
    scores = nn.sigmoid(nn.linear(weight, f"{at}.gate", x, count))
    chosen = nn.best(scores + weight(f"{at}.router_bias", count), config["moe_top_k"])
    shares = np.take_along_axis(scores, chosen, axis=-1)
    shares = shares / shares.sum(axis=-1, keepdims=True) * config["moe_router_scaling_factor"]
    gates = weight(f"{at}.gate_proj.weight", count, inner, hidden)
    ups = weight(f"{at}.up_proj.weight", count, inner, hidden)
    downs = weight(f"{at}.down_proj.weight", count, hidden, inner)
    given = [
        _bounded(x @ gate.T, x @ up.T, limit) @ down.T
        for gate, up, down in zip(gates, ups, downs, strict=True)
    ]
    return nn.mixture(given, chosen, shares)


FORWARDS = {"step3p5": step3p5}
