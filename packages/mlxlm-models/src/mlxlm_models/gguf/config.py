"""A GGUF file's metadata as the config.json that the model was converted from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlxlm_models.errors import ConfigError, UnknownArchitecture
from mlxlm_models.gguf.families import FAMILIES, Family
from mlxlm_models.gguf.reader import GGUFFile
from mlxlm_models.gguf.rope import rope_scaling


def family_of(file: GGUFFile) -> Family:
    architecture = file.metadata.get("general.architecture")
    family = FAMILIES.get(str(architecture))
    if family is None:
        raise UnknownArchitecture(
            f"{file.path} is of the GGUF architecture {architecture!r}, read are "
            f"{', '.join(FAMILIES)}: use the model's safetensors version."
        )
    return family


def config_of(file: GGUFFile, factors: Mapping[str, list[float]]) -> dict[str, Any]:
    """Return the config in Hugging Face's keys.

    `factors` are the contents of the RoPE tensors that the file has. Raises ConfigError
    for a setting that is missing or cannot be said in these keys.
    """
    family = family_of(file)
    values = _Values(file)
    if values.get("expert_count", 0):
        raise ConfigError(f"{file.path} is a mixture of experts: use its safetensors version.")
    heads = values["attention.head_count"]
    kv_heads = values.get("attention.head_count_kv", heads)
    if isinstance(heads, list) or isinstance(kv_heads, list):
        raise ConfigError(f"{file.path} has layers of different head counts, which isn't read.")
    head_dim = values.get("attention.key_length", values["embedding_length"] // heads)
    if (value_dim := values.get("attention.value_length", head_dim)) != head_dim:
        raise ConfigError(f"{file.path} has keys of {head_dim} and values of {value_dim} numbers.")
    theta = values.get("rope.freq_base", 10000.0)
    config: dict[str, Any] = {
        "model_type": family.model_type,
        "hidden_size": values["embedding_length"],
        "num_hidden_layers": values["block_count"],
        "intermediate_size": values["feed_forward_length"],
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "max_position_embeddings": values["context_length"],
        "rms_norm_eps": values["attention.layer_norm_rms_epsilon"],
        "rope_theta": theta,
        "vocab_size": _vocabulary(file),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "torch_dtype": "float16",
    }
    if scaling := rope_scaling(values.all, theta, factors):
        config["rope_scaling"] = scaling
    for name in ("bos", "eos"):
        token = file.metadata.get(f"tokenizer.ggml.{name}_token_id")
        if token is not None:
            config[f"{name}_token_id"] = token
    return config | _particular(family.model_type, values, config, file)


class _Values:
    """The settings under the architecture's own prefix."""

    def __init__(self, file: GGUFFile) -> None:
        self.path: Path = file.path
        self.prefix = f"{file.metadata['general.architecture']}."
        self.all = {
            key.removeprefix(self.prefix): value
            for key, value in file.metadata.items()
            if key.startswith(self.prefix)
        }

    def __getitem__(self, key: str) -> Any:
        if key not in self.all:
            raise ConfigError(f"{self.path} lacks {self.prefix}{key} in its metadata.")
        return self.all[key]

    def get(self, key: str, default: Any = None) -> Any:
        return self.all.get(key, default)


def _vocabulary(file: GGUFFile) -> int:
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        raise ConfigError(f"{file.path} has no token_embd.weight: it is not a language model.")
    return embedding.shape[0]


def _particular(
    model_type: str, values: _Values, config: Mapping[str, Any], file: GGUFFile
) -> dict[str, Any]:
    """Return what one family has and the others haven't."""
    window = values.get("attention.sliding_window")
    match model_type:
        case "llama" | "smollm3":
            return {
                "attention_bias": "blk.0.attn_q.bias" in file.tensors,
                "mlp_bias": "blk.0.ffn_up.bias" in file.tensors,
            }
        case "gemma":
            return {"hidden_activation": "gelu_pytorch_tanh"}
        case "gemma2":
            # The 27B model scales queries by hidden size over heads, the others by head size.
            return {
                "hidden_activation": "gelu_pytorch_tanh",
                "query_pre_attn_scalar": _query_scale(config, of_large=46),
                "sliding_window": window,
                "attn_logit_softcapping": values.get("attn_logit_softcapping"),
                "final_logit_softcapping": values.get("final_logit_softcapping"),
            }
        case "gemma3_text":
            return {
                "hidden_activation": "gelu_pytorch_tanh",
                "query_pre_attn_scalar": _query_scale(config, of_large=62),
                "sliding_window": window,
                "sliding_window_pattern": 6,
                "rope_local_base_freq": values.get("rope.freq_base_swa", 10000.0),
            }
        case "phi3":
            rotated = values.get("rope.dimension_count", config["head_dim"])
            original = values.get("rope.scaling.original_context_length")
            return {
                "partial_rotary_factor": rotated / config["head_dim"],
                "original_max_position_embeddings": original or config["max_position_embeddings"],
                "sliding_window": window or None,
            }
    return {}


def _query_scale(config: Mapping[str, Any], of_large: int) -> int:
    if config["num_hidden_layers"] == of_large:
        return int(config["hidden_size"] // config["num_attention_heads"])
    return int(config["head_dim"])
