"""OpenELM (Mehta et al., 2024): sizes by layer; Apple's modeling_openelm."""

from typing import Any

import numpy as np

from . import blocks as nn


def _inner(config: dict[str, Any], layer: int) -> int:
    size, by = config["ffn_multipliers"][layer] * config["model_dim"], config["ffn_dim_divisor"]
    inner = max(by, int(size + by / 2) // by * by)
    return inner + by if inner < 0.9 * size else inner


def openelm(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, size, vocab = config["model_dim"], config["head_dim"], config["vocab_size"]
    embeddings = weight("transformer.token_embeddings.weight", vocab, hidden)
    x = embeddings[tokens]
    for layer in range(config["num_transformer_layers"]):
        at = f"transformer.layers.{layer}"
        q_heads, kv_heads = config["num_query_heads"][layer], config["num_kv_heads"][layer]
        h = nn.rms_norm(weight, f"{at}.attn_norm", x, 1e-6)
        rows = (q_heads + 2 * kv_heads) * size
        qkv = nn.heads(nn.linear(weight, f"{at}.attn.qkv_proj", h, rows), q_heads + 2 * kv_heads)
        q, k, v = np.split(qkv, [q_heads, q_heads + kv_heads])
        if config.get("normalize_qk_projections", True):
            q = nn.rms_norm(weight, f"{at}.attn.q_norm", q, 1e-6)
            k = nn.rms_norm(weight, f"{at}.attn.k_norm", k, 1e-6)
        base = config["rope_freq_constant"]
        q, k = nn.rotate(q, base), nn.rotate(k, base)
        out = nn.joined(nn.attend(q, k, v, nn.causal(len(x))))
        x = x + nn.linear(weight, f"{at}.attn.out_proj", out, hidden)
        h = nn.rms_norm(weight, f"{at}.ffn_norm", x, 1e-6)
        inner = _inner(config, layer)
        if config.get("ffn_with_glu", True):
            gate, up = np.split(nn.linear(weight, f"{at}.ffn.proj_1", h, 2 * inner), 2, axis=-1)
            h = nn.silu(gate) * up
        else:
            h = nn.silu(nn.linear(weight, f"{at}.ffn.proj_1", h, inner))
        x = x + nn.linear(weight, f"{at}.ffn.proj_2", h, hidden)
    x = nn.rms_norm(weight, "transformer.norm", x, 1e-6)
    if config.get("share_input_output_layers", True):
        return x @ embeddings.T
    return nn.linear(weight, "lm_head", x, vocab)


FORWARDS = {"openelm": openelm}
