"""PLaMo (Preferred Networks, 2023): parallel blocks; head h has key h % their number."""

from typing import Any

import numpy as np

from . import blocks as nn


def plamo(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab, eps = config["hidden_size"], config["vocab_size"], config["rms_norm_eps"]
    q_heads, base = config["num_attention_heads"], config["rope_theta"]
    kv_heads, size = q_heads // config["n_shared_head"], hidden // q_heads
    x = weight("model.embed_tokens.weight", vocab, hidden)[tokens]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.layers.{layer}"
        h = nn.rms_norm(weight, f"{at}.norm", x, eps)
        q = nn.heads(nn.linear(weight, f"{at}.self_attn.q_proj", h, hidden), q_heads)
        k = nn.heads(nn.linear(weight, f"{at}.self_attn.k_proj", h, kv_heads * size), kv_heads)
        v = nn.heads(nn.linear(weight, f"{at}.self_attn.v_proj", h, kv_heads * size), kv_heads)
        q, k = nn.rotate(q, base), nn.rotate(k, base)
        k, v = (np.tile(a, (config["n_shared_head"], 1, 1)) for a in (k, v))
        out = nn.joined(nn.attend(q, k, v, nn.causal(len(x))))
        out = nn.linear(weight, f"{at}.self_attn.o_proj", out, hidden)
        x = x + out + nn.gated_mlp(weight, f"{at}.mlp", h, config["intermediate_size"])
    return nn.linear(weight, "lm_head", nn.rms_norm(weight, "model.norm", x, eps), vocab)


FORWARDS = {"plamo": plamo}
