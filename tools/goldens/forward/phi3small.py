"""Phi 3 small (Abdin et al., 2024): the repository's modeling_phi3_small, its masks written out."""

from typing import Any

import numpy as np

from . import blocks as nn


def _seen(config: dict[str, Any], layer: int, length: int) -> nn.Array:
    """Return (heads, L, L)."""
    heads, causal = config["num_attention_heads"], nn.causal(length)
    if (layer + 1) % config["dense_attention_every_n_layers"] == 0:
        return causal[None].repeat(heads, axis=0)
    block = np.arange(length) // config["blocksparse_block_size"]
    near = block[:, None] - block < config["blocksparse_num_local_blocks"]
    stride = config["blocksparse_vert_stride"]
    step = 0 if config["blocksparse_homo_head_pattern"] else max(1, int(stride / heads))
    return np.stack(
        [causal & (near | ((block + head * step + 1) % stride == 0)) for head in range(heads)]
    )


def _gegelu(x: nn.Array, limit: float) -> nn.Array:
    gate, linear = np.minimum(x[:, ::2], limit), np.clip(x[:, 1::2], -limit, limit)
    return gate * nn.sigmoid(1.702 * gate) * (linear + 1)


def phi3small(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab, eps = config["hidden_size"], config["vocab_size"], config["layer_norm_epsilon"]
    q_heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size, inner = hidden // q_heads, config["ff_intermediate_size"]
    scale = config["mup_attn_multiplier"] / size if config["mup_use_scaling"] else None
    embeddings = weight("model.embed_tokens.weight", vocab, hidden)
    x = embeddings[tokens] * config["mup_embedding_multiplier"]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        h = nn.layer_norm(weight, f"{at}.input_layernorm", x, eps)
        rows = (q_heads + 2 * kv_heads) * size
        qkv = nn.linear(weight, f"{at}.self_attn.query_key_value", h, rows, bias=True)
        groups = nn.heads(qkv, q_heads + 2 * kv_heads).reshape(kv_heads, -1, len(x), size)
        q, k, v = groups[:, :-2].reshape(q_heads, len(x), size), groups[:, -2], groups[:, -1]
        q, k = (nn.rotate(a, config["rope_embedding_base"]) for a in (q, k))
        out = nn.joined(nn.attend(q, k, v, _seen(config, layer, len(x)), scale))
        x = x + nn.linear(weight, f"{at}.self_attn.dense", out, hidden, bias=True)
        h = nn.layer_norm(weight, f"{at}.post_attention_layernorm", x, eps)
        h = nn.linear(weight, f"{at}.mlp.up_proj", h, 2 * inner, bias=True)
        h = _gegelu(h, config["gegelu_limit"])
        x = x + nn.linear(weight, f"{at}.mlp.down_proj", h, hidden, bias=True)
    x = nn.layer_norm(weight, "model.final_layernorm", x, eps)
    return x @ embeddings.T / config["mup_width_multiplier"]


FORWARDS = {"phi3small": phi3small}
