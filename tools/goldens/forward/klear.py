"""Klear (Kwai-Klear, 2025): the model card's routing, and Qwen 3's attention."""

from typing import Any

import numpy as np

from . import blocks as nn


def klear(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab, eps = config["hidden_size"], config["vocab_size"], config["rms_norm_eps"]
    q_heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size, bias, base = hidden // q_heads, config["attention_bias"], config["rope_theta"]
    x = weight("model.embed_tokens.weight", vocab, hidden)[tokens]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        h = nn.rms_norm(weight, f"{at}.input_layernorm", x, eps)
        name = f"{at}.self_attn"
        q = nn.heads(nn.linear(weight, f"{name}.q_proj", h, q_heads * size, bias), q_heads)
        k = nn.heads(nn.linear(weight, f"{name}.k_proj", h, kv_heads * size, bias), kv_heads)
        v = nn.heads(nn.linear(weight, f"{name}.v_proj", h, kv_heads * size, bias), kv_heads)
        q = nn.rotate(nn.rms_norm(weight, f"{name}.q_norm", q, eps), base)
        k = nn.rotate(nn.rms_norm(weight, f"{name}.k_norm", k, eps), base)
        out = nn.joined(nn.attend(q, k, v, nn.causal(len(x))))
        x = x + nn.linear(weight, f"{name}.o_proj", out, hidden, bias)
        h = nn.rms_norm(weight, f"{at}.post_attention_layernorm", x, eps)
        if layer in config["mlp_only_layers"] or (layer + 1) % config["decoder_sparse_step"]:
            x = x + nn.gated_mlp(weight, f"{at}.mlp", h, config["intermediate_size"])
        else:
            x = x + _experts(config, weight, f"{at}.mlp", h)
    x = nn.rms_norm(weight, "model.norm", x, eps)
    return nn.linear(weight, "lm_head", x, vocab)


def _experts(config: dict[str, Any], weight: nn.Weight, at: str, x: nn.Array) -> nn.Array:
    count, inner = config["num_experts"], config["moe_intermediate_size"]
    scores = nn.sigmoid(nn.linear(weight, f"{at}.gate", x, count))
    chosen = nn.best(scores + weight(f"{at}.expert_bias", count), config["num_experts_per_tok"])
    shares = np.take_along_axis(scores, chosen, axis=-1)
    if config["norm_topk_prob"]:
        shares = shares / shares.sum(axis=-1, keepdims=True)
    given = [nn.gated_mlp(weight, f"{at}.experts.{i}", x, inner) for i in range(count)]
    shared = nn.gated_mlp(weight, f"{at}.shared_experts", x, inner * config["n_shared_experts"])
    blend = nn.softmax(nn.linear(weight, f"{at}.coefficient", x, 2, bias=True))
    return nn.mixture(given, chosen, shares) * blend[:, :1] + shared * blend[:, 1:]


FORWARDS = {"Klear": klear}
