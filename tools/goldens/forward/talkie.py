"""Talkie 1930 (2026): the repository's modeling_talkie."""

from typing import Any

from . import blocks as nn

EPS = 2.0**-23


def talkie(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab, heads = (
        config["hidden_size"],
        config["vocab_size"],
        config["num_attention_heads"],
    )
    inner, base = config["intermediate_size"], config["rope_theta"]
    x = first = nn.plain_rms(weight("embed.weight", vocab, hidden)[tokens], EPS)
    for layer in range(config["num_hidden_layers"]):
        at = f"blocks.{layer}"
        h = nn.plain_rms(x, EPS)
        q, k, v = (
            nn.heads(nn.linear(weight, f"{at}.attn.attn_{name}", h, hidden), heads)
            for name in ("query", "key", "value")
        )
        q = nn.plain_rms(nn.rotate(q, base, turn=-1.0), EPS)
        k = nn.plain_rms(nn.rotate(k, base, turn=-1.0), EPS)
        q = q * weight(f"{at}.attn.head_gain.head_g", heads)[:, None, None]
        out = nn.joined(nn.attend(q, k, v, nn.causal(len(x))))
        out = nn.linear(weight, f"{at}.attn.attn_resid", out, hidden)
        x = x + out * weight(f"{at}.attn_gain.a_g", 1)
        h = nn.plain_rms(x, EPS)
        gate = nn.silu(nn.linear(weight, f"{at}.mlp.mlp_gate", h, inner))
        h = gate * nn.linear(weight, f"{at}.mlp.mlp_linear", h, inner)
        h = nn.linear(weight, f"{at}.mlp.mlp_resid", h, hidden)
        x = x + h * weight(f"{at}.mlp_gain.a_g", 1) + first * weight(f"{at}.embed_skip.a_g", 1)
    x = nn.plain_rms(x, EPS)
    return x @ weight("lm_head", vocab, hidden).T * weight("lm_head_gain.w_g", 1)


FORWARDS = {"talkie": talkie}
