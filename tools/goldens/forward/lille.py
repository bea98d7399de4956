"""Lille 130M (Nikity, 2025): names and sizes from the author's simple_ai/model.py.

What that file does to queries and keys is no rotation; that neighbours are rotated, as here,
is what converted checkpoints are run with (mlx-lm).
"""

from typing import Any

import numpy as np

from . import blocks as nn


def lille(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab, eps = config["n_embd"], config["vocab_size"], config["layer_norm_eps"]
    q_heads, kv_heads, base = config["n_head"], config["n_kv_heads"], config["rope_theta"]
    rows = (q_heads + 2 * kv_heads) * (hidden // q_heads)
    inner = 256 * round(int(8 * hidden / 3) / 256)
    embeddings = weight("transformer.tok_embeddings.weight", vocab, hidden)
    x = embeddings[tokens]
    for layer in range(config["n_layer"]):
        at = f"transformer.layers.{layer}"
        h = nn.rms_norm(weight, f"{at}.attention.norm", x, eps)
        qkv = nn.linear(weight, f"{at}.attention.qkv_proj", h, rows)
        q, k, v = np.split(nn.heads(qkv, q_heads + 2 * kv_heads), [q_heads, q_heads + kv_heads])
        q, k = nn.rotate(q, base, neighbours=True), nn.rotate(k, base, neighbours=True)
        out = nn.joined(nn.attend(q, k, v, nn.causal(len(x))))
        x = x + nn.linear(weight, f"{at}.attention.out_proj", out, hidden)
        h = nn.rms_norm(weight, f"{at}.feed_forward.norm", x, eps)
        x = x + nn.gated_mlp(weight, f"{at}.feed_forward", h, inner)
    return nn.rms_norm(weight, "transformer.norm", x, eps) @ embeddings.T


FORWARDS = {"lille-130m": lille}
