"""Llama Nemotron (Bercovich et al., 2025): Llama with halves left out; NVIDIA's modeling_decilm."""

from typing import Any

from . import blocks as nn


def nemotron_nas(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab, eps = config["hidden_size"], config["vocab_size"], config["rms_norm_eps"]
    heads, base = config["num_attention_heads"], config["rope_theta"]
    size = hidden // heads
    x = weight("model.embed_tokens.weight", vocab, hidden)[tokens]
    for layer, halves in enumerate(config["block_configs"]):
        at, attention, ffn = f"model.layers.{layer}", halves["attention"], halves["ffn"]
        if not attention.get("no_op"):
            h = nn.rms_norm(weight, f"{at}.input_layernorm", x, eps)
            name = f"{at}.self_attn"
            if attention.get("replace_with_linear"):
                x = x + nn.linear(weight, f"{name}.linear_attn", h, hidden)
            else:
                shared = heads // attention["n_heads_in_group"]
                q = nn.heads(nn.linear(weight, f"{name}.q_proj", h, hidden), heads)
                k = nn.heads(nn.linear(weight, f"{name}.k_proj", h, shared * size), shared)
                v = nn.heads(nn.linear(weight, f"{name}.v_proj", h, shared * size), shared)
                q, k = nn.rotate(q, base), nn.rotate(k, base)
                out = nn.joined(nn.attend(q, k, v, nn.causal(len(x))))
                x = x + nn.linear(weight, f"{name}.o_proj", out, hidden)
        if not ffn.get("no_op"):
            h = nn.rms_norm(weight, f"{at}.post_attention_layernorm", x, eps)
            if ffn.get("replace_with_linear"):
                x = x + nn.linear(weight, f"{at}.mlp.linear_mlp", h, hidden)
            else:
                inner = -(-int(2 * ffn["ffn_mult"] * hidden / 3) // 256) * 256
                x = x + nn.gated_mlp(weight, f"{at}.mlp", h, inner)
    x = nn.rms_norm(weight, "model.norm", x, eps)
    return nn.linear(weight, "lm_head", x, vocab)


FORWARDS = {"nemotron-nas": nemotron_nas}
