"""How GGUF architectures relate to Hugging Face's models: tensor names and settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_SANDWICHED = {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_PHI = {"attn_qkv": "self_attn.qkv_proj", "ffn_up": "mlp.gate_up_proj"}


@dataclass(frozen=True)
class Family:
    """`permuted`: rows of the query and key projections are paired for interleaved RoPE.

    `norm_offset` is what the conversion added to norm weights. `layer_names` are added
    to the usual ones.
    """

    model_type: str
    permuted: bool = False
    norm_offset: float = 0.0
    layer_names: Mapping[str, str] = field(default_factory=dict)

    def name(self, gguf_name: str) -> str | None:
        """Return Hugging Face's name of a tensor, None for one that isn't known."""
        module, _, kind = gguf_name.rpartition(".")
        if module.startswith("blk."):
            _, number, layer_module = module.split(".", 2)
            known = self.layer_names.get(layer_module) or _LAYER_NAMES.get(layer_module)
            return f"model.layers.{number}.{known}.{kind}" if known else None
        return f"{_NAMES[module]}.{kind}" if module in _NAMES else None


FAMILIES = {
    "llama": Family("llama", permuted=True),
    "smollm3": Family("smollm3", permuted=True),
    "qwen2": Family("qwen2"),
    "qwen3": Family("qwen3"),
    "gemma": Family("gemma", norm_offset=1.0),
    "gemma2": Family("gemma2", norm_offset=1.0, layer_names=_SANDWICHED),
    "gemma3": Family("gemma3_text", norm_offset=1.0, layer_names=_SANDWICHED),
    "phi3": Family("phi3", layer_names=_PHI),
}
"""By `general.architecture`."""
