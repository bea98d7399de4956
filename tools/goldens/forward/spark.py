"""Spark X2.5 (2026): windows and gated heads; XHToken's modeling_spark."""

from typing import Any

import numpy as np

from . import blocks as nn


def spark(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab, eps = config["hidden_size"], config["vocab_size"], config["rms_norm_eps"]
    q_heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size, bias = config["head_dim"], config["attention_bias"]
    embeddings = weight("model.embedding.weight", vocab, hidden)
    x = embeddings[tokens]
    for layer, kind in enumerate(config["layer_types"]):
        at = f"model.layers.{layer}"
        h = nn.rms_norm(weight, f"{at}.input_layernorm", x, eps)
        rows = (q_heads + 2 * kv_heads) * size
        qkv = nn.linear(weight, f"{at}.self_attn.q_k_v_proj", h, rows, bias)
        q, k, v = np.split(nn.heads(qkv, q_heads + 2 * kv_heads), [q_heads, q_heads + kv_heads])
        rope = config["rope_parameters"][kind]
        dims = int(size * rope["partial_rotary_factor"])
        q, k = nn.rotate(q, rope["rope_theta"], dims), nn.rotate(k, rope["rope_theta"], dims)
        window = config["sliding_window"] if kind == "sliding_attention" else None
        out = nn.attend(q, k, v, nn.causal(len(x), window))
        if config["headwise_attn_output_gate"]:
            gate = nn.linear(weight, f"{at}.self_attn.g_proj", h, q_heads, bias)
            act = nn.sigmoid if config["gate_attn_act_mode"] == "sigmoid" else nn.silu
            out = out * act(gate).T[..., None]
        x = x + nn.linear(weight, f"{at}.self_attn.out_proj", nn.joined(out), hidden, bias)
        h = nn.rms_norm(weight, f"{at}.post_attention_layernorm", x, eps)
        inner = config["intermediate_size"]
        x = x + nn.gated_mlp(weight, f"{at}.mlp", h, inner, nn.gelu, config["mlp_bias"])
    x = nn.rms_norm(weight, "model.norm", x, eps)
    return x @ embeddings.T


FORWARDS = {"spark2_5": spark}
