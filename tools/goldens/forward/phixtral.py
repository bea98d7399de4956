"""Phixtral (Labonne, 2024): Phi 2 in its first layout (`phi-msft`), with several MLPs a layer."""

from typing import Any

import numpy as np

from . import blocks as nn


def _mlp(weight: nn.Weight, name: str, x: nn.Array) -> nn.Array:
    hidden = x.shape[-1]
    h = nn.gelu_tanh(nn.linear(weight, f"{name}.fc1", x, 4 * hidden, bias=True))
    return nn.linear(weight, f"{name}.fc2", h, hidden, bias=True)


def phixtral(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab, heads = config["n_embd"], config["vocab_size"], config["n_head"]
    x = weight("transformer.embd.wte.weight", vocab, hidden)[tokens]
    for layer in range(config["n_layer"]):
        at = f"transformer.h.{layer}"
        h = nn.layer_norm(weight, f"{at}.ln", x, config["layer_norm_epsilon"])
        qkv = nn.heads(nn.linear(weight, f"{at}.mixer.Wqkv", h, 3 * hidden, bias=True), 3 * heads)
        q, k, v = np.split(qkv, 3)
        q, k = (nn.rotate(a, 10000.0, config["rotary_dim"]) for a in (q, k))
        out = nn.joined(nn.attend(q, k, v, nn.causal(len(x))))
        out = nn.linear(weight, f"{at}.mixer.out_proj", out, hidden, bias=True)
        experts = config.get("num_local_experts")
        if experts is None:
            x = x + out + _mlp(weight, f"{at}.mlp", h)
            continue
        scores = nn.linear(weight, f"{at}.moe.gate", h, experts)
        chosen = nn.best(scores, config["num_experts_per_tok"])
        shares = nn.softmax(np.take_along_axis(scores, chosen, axis=-1))
        given = [_mlp(weight, f"{at}.moe.mlp.{i}", h) for i in range(experts)]
        x = x + out + nn.mixture(given, chosen, shares)
    x = nn.layer_norm(weight, "lm_head.ln", x, config["layer_norm_epsilon"])
    return nn.linear(weight, "lm_head.linear", x, vocab, bias=True)


FORWARDS = {"phixtral": phixtral, "phi-msft": phixtral}
