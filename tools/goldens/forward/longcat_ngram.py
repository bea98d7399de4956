"""LongCat-Flash-Lite (Meituan, 2026): the repository's modeling_longcat_ngram."""

from typing import Any

import numpy as np

from . import blocks as nn


def _shifted(tokens: list[int], by: int, end: int) -> np.ndarray:
    """Return the token `by` places before, 0 where the text began since, or an `end` came."""
    return np.array(
        [
            tokens[i - by] if i >= by and end not in tokens[i - by : i] else 0
            for i in range(len(tokens))
        ]
    )


def _embedded(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab = config["hidden_size"], config["vocab_size"]
    longest, tables = config["emb_neighbor_num"], config["emb_split_num"]
    at, count = "model.ngram_embeddings", tables * (longest - 1)
    x = weight(f"{at}.word_embeddings.weight", vocab, hidden)[tokens]
    for index in range(count):
        rows = config["ngram_vocab_size_ratio"] * vocab + 2 * index + 1
        ids = np.array(tokens)
        for by in range(1, index // tables + 2):
            ids = ids + _shifted(tokens, by, config["eos_token_id"]) * (vocab**by % rows)
        found = weight(f"{at}.embedders.{index}.weight", rows, hidden // count)[ids % rows]
        x = x + nn.linear(weight, f"{at}.post_projs.{index}", found, hidden)
    return x / (1 + count)


def longcat(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    vocab, eps = config["vocab_size"], config["rms_norm_eps"]
    x = _embedded(config, weight, tokens)
    for layer in range(config["num_layers"]):
        at, shortcut = f"model.layers.{layer}", 0.0
        for half in range(2):
            h = nn.rms_norm(weight, f"{at}.input_layernorm.{half}", x, eps)
            x = x + _attention(config, weight, f"{at}.self_attn.{half}", h)
            h = nn.rms_norm(weight, f"{at}.post_attention_layernorm.{half}", x, eps)
            if half == 0:
                shortcut = _experts(config, weight, f"{at}.mlp", h)
            x = x + nn.gated_mlp(weight, f"{at}.mlps.{half}", h, config["ffn_hidden_size"])
        x = x + shortcut
    return nn.linear(weight, "lm_head", nn.rms_norm(weight, "model.norm", x, eps), vocab)


def _attention(config: dict[str, Any], weight: nn.Weight, at: str, x: nn.Array) -> nn.Array:
    hidden, heads, eps = x.shape[-1], config["num_attention_heads"], config["rms_norm_eps"]
    nope, rope, value = (
        config[key] for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    )
    q_rank, kv_rank, base = config["q_lora_rank"], config["kv_lora_rank"], config["rope_theta"]
    q = nn.rms_norm(
        weight, f"{at}.q_a_layernorm", nn.linear(weight, f"{at}.q_a_proj", x, q_rank), eps
    )
    q = nn.heads(nn.linear(weight, f"{at}.q_b_proj", q, heads * (nope + rope)), heads)
    q = q * (hidden / q_rank) ** 0.5
    kv = nn.linear(weight, f"{at}.kv_a_proj_with_mqa", x, kv_rank + rope)
    latent = nn.rms_norm(weight, f"{at}.kv_a_layernorm", kv[:, :kv_rank], eps)
    latent = latent * (hidden / kv_rank) ** 0.5
    both = nn.heads(nn.linear(weight, f"{at}.kv_b_proj", latent, heads * (nope + value)), heads)
    turned = nn.rotate(kv[None, :, kv_rank:], base, neighbours=True).repeat(heads, axis=0)
    q = np.concatenate([q[..., :nope], nn.rotate(q[..., nope:], base, neighbours=True)], axis=-1)
    k = np.concatenate([both[..., :nope], turned], axis=-1)
    out = nn.joined(nn.attend(q, k, both[..., nope:], nn.causal(len(x))))
    return nn.linear(weight, f"{at}.o_proj", out, hidden)


def _experts(config: dict[str, Any], weight: nn.Weight, at: str, x: nn.Array) -> nn.Array:
    routed, idle = config["n_routed_experts"], config["zero_expert_num"]
    scores = nn.softmax(nn.linear(weight, f"{at}.router.classifier", x, routed + idle))
    correction = weight(f"{at}.router.e_score_correction_bias", routed + idle)
    chosen = nn.best(scores + correction, config["moe_topk"])
    shares = np.take_along_axis(scores, chosen, axis=-1) * config["routed_scaling_factor"]
    inner = config["expert_ffn_hidden_size"]
    given = [nn.gated_mlp(weight, f"{at}.experts.{i}", x, inner) for i in range(routed)]
    return nn.mixture([*given, *[x] * idle], chosen, shares)


FORWARDS = {"longcat_flash_ngram": longcat}
