"""IQuest LoopCoder (2026): the repository's modeling_iquestloopcoder, of a whole text."""

from typing import Any

from . import blocks as nn


def loopcoder(config: dict[str, Any], weight: nn.Weight, tokens: list[int]) -> nn.Array:
    hidden, vocab, eps = config["hidden_size"], config["vocab_size"], config["rms_norm_eps"]
    q_heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size, base = config["head_dim"], config["rope_theta"]
    x = weight("model.embed_tokens.weight", vocab, hidden)[tokens]
    first: dict[int, tuple[nn.Array, nn.Array]] = {}
    for loop in range(config["loop_num"]):
        for layer in range(config["num_hidden_layers"]):
            at = f"model.layers.{layer}"
            h = nn.rms_norm(weight, f"{at}.input_layernorm", x, eps)
            name = f"{at}.self_attn"
            q = nn.heads(nn.linear(weight, f"{name}.q_proj", h, q_heads * size), q_heads)
            k = nn.heads(nn.linear(weight, f"{name}.k_proj", h, kv_heads * size), kv_heads)
            v = nn.heads(nn.linear(weight, f"{name}.v_proj", h, kv_heads * size), kv_heads)
            q, k = nn.rotate(q, base), nn.rotate(k, base)
            if loop == 0:
                first[layer] = k, v
                out = nn.attend(q, k, v, nn.causal(len(x)))
            else:
                rows = weight(f"model.gate_projections.{layer}.weight", q_heads, size)
                bias = weight(f"model.gate_projections.{layer}.bias", q_heads)
                gate = nn.sigmoid((q * rows[:, None]).sum(axis=-1) + bias[:, None])[..., None]
                near = nn.attend(q, k, v, nn.causal(len(x), config["loop_window_size"]))
                out = near * (1 - gate) + nn.attend(q, *first[layer], nn.causal(len(x))) * gate
            x = x + nn.linear(weight, f"{name}.o_proj", nn.joined(out), hidden)
            h = nn.rms_norm(weight, f"{at}.post_attention_layernorm", x, eps)
            x = x + nn.gated_mlp(weight, f"{at}.mlp", h, config["intermediate_size"])
    x = nn.rms_norm(weight, "model.norm", x, eps)
    return nn.linear(weight, "lm_head", x, vocab)


FORWARDS = {"iquestloopcoder": loopcoder}
