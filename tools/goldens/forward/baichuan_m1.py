"""Baichuan M1 (Wang et al., 2025): keys and values mixed with those of the token before."""

from typing import Any

import numpy as np

from . import blocks as nn


def _mixed(x: nn.Array, taps: nn.Array) -> nn.Array:
    before = np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], axis=1)
    return taps[0, 0, ..., 0][..., None] * before + taps[0, 0, ..., 1][..., None] * x


def baichuan(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab, eps = config["hidden_size"], config["vocab_size"], config["rms_norm_eps"]
    base = config["rope_theta"]
    x = weight("model.embed_tokens.weight", vocab, hidden)[tokens]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        windowed = layer in config["sliding_window_layers"]
        kind = "num_swa" if windowed else "num"
        q_heads, kv_heads = config[f"{kind}_attention_heads"], config[f"{kind}_key_value_heads"]
        size = hidden // q_heads
        h = nn.rms_norm(weight, f"{at}.input_layernorm", x, eps)
        rows = (q_heads + 2 * kv_heads) * size
        qkv = nn.heads(nn.linear(weight, f"{at}.self_attn.W_pack", h, rows), q_heads + 2 * kv_heads)
        q, k, v = np.split(qkv, [q_heads, q_heads + kv_heads])
        k = _mixed(k, weight(f"{at}.self_attn.conv_k", 1, 1, kv_heads, 1, 2))
        v = _mixed(v, weight(f"{at}.self_attn.conv_v", 1, 1, kv_heads, 1, 2))
        q, k = nn.rotate(q, base), nn.rotate(k, base)
        mask = nn.causal(len(x), config["sliding_window"] if windowed else None)
        out = nn.joined(nn.attend(q, k, v, mask))
        x = x + nn.linear(weight, f"{at}.self_attn.o_proj", out, hidden)
        h = nn.rms_norm(weight, f"{at}.post_attention_layernorm", x, eps)
        x = x + nn.gated_mlp(weight, f"{at}.mlp", h, config["intermediate_size"])
    x = nn.rms_norm(weight, "model.norm", x, eps)
    head = weight("lm_head.weight", vocab, hidden)
    return x @ (head / np.sqrt((head * head).sum(axis=-1, keepdims=True))).T


FORWARDS = {"baichuan_m1": baichuan}
