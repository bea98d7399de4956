"""Hunyuan-Large (Sun et al., 2024): keys and values shared by layers, a shared MLP."""

from typing import Any

import numpy as np

from . import blocks as nn


def hunyuan(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab, eps = config["hidden_size"], config["vocab_size"], config["rms_norm_eps"]
    q_heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size, bias = hidden // q_heads, config["attention_bias"]
    base = config["rope_theta"] * config["rope_scaling"]["alpha"] ** (size / (size - 2))
    embeddings = weight("model.embed_tokens.weight", vocab, hidden)
    x = embeddings[tokens]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        h = nn.rms_norm(weight, f"{at}.input_layernorm", x, eps)
        name = f"{at}.self_attn"
        q = nn.heads(nn.linear(weight, f"{name}.q_proj", h, q_heads * size, bias), q_heads)
        if not config["use_cla"] or layer % config["cla_share_factor"] == 0:
            k = nn.heads(nn.linear(weight, f"{name}.k_proj", h, kv_heads * size, bias), kv_heads)
            v = nn.heads(nn.linear(weight, f"{name}.v_proj", h, kv_heads * size, bias), kv_heads)
            k = nn.rotate(k, base)
        q, own = nn.rotate(q, base), k
        if config["use_qk_norm"]:
            q = nn.rms_norm(weight, f"{name}.query_layernorm", q, eps)
            own = nn.rms_norm(weight, f"{name}.key_layernorm", own, eps)
        out = nn.joined(nn.attend(q, own, v, nn.causal(len(x))))
        x = x + nn.linear(weight, f"{name}.o_proj", out, hidden, bias)
        h = nn.rms_norm(weight, f"{at}.post_attention_layernorm", x, eps)
        x = x + _experts(config, weight, f"{at}.mlp", h)
    x = nn.rms_norm(weight, "model.norm", x, eps)
    return x @ embeddings.T


def _experts(config: dict[str, Any], weight: nn.Weight, at: str, x: nn.Array) -> nn.Array:
    count, inner, top_k = config["num_experts"], config["intermediate_size"], config["moe_topk"]
    scores = nn.softmax(nn.linear(weight, f"{at}.gate.wg", x, count))
    chosen = nn.best(scores, top_k)
    shares = np.take_along_axis(scores, chosen, axis=-1)
    if top_k > 1:
        shares = shares / shares.sum(axis=-1, keepdims=True)
    given = [nn.gated_mlp(weight, f"{at}.experts.{i}", x, inner) for i in range(count)]
    shared = nn.gated_mlp(weight, f"{at}.shared_mlp", x, inner * config["num_shared_expert"])
    return nn.mixture(given, chosen, shares) + shared


FORWARDS = {"hunyuan": hunyuan}
