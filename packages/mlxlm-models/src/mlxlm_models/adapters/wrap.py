"""Which adapter layer goes around which layer."""

import mlx.nn as nn

from mlxlm_models.adapters.config import AdapterConfig
from mlxlm_models.adapters.dora import DoRAEmbedding, DoRALinear
from mlxlm_models.adapters.lora import LoRAEmbedding, LoRALinear
from mlxlm_models.errors import WeightsError

_LINEAR = (nn.Linear, nn.QuantizedLinear)
_EMBEDDING = (nn.Embedding, nn.QuantizedEmbedding)


def wrap(path: str, layer: nn.Module, config: AdapterConfig) -> nn.Module:
    """Return `layer` inside a LoRA or DoRA layer. WeightsError names an unsuited one."""
    dora = config.fine_tune_type == "dora"
    if isinstance(layer, _LINEAR):
        linear = DoRALinear if dora else LoRALinear
        return linear(layer, config.rank, config.scale, config.dropout)
    if isinstance(layer, _EMBEDDING):
        embedding = DoRAEmbedding if dora else LoRAEmbedding
        return embedding(layer, config.rank, config.scale, config.dropout)
    raise WeightsError(
        f"{path!r} is a {type(layer).__name__}: {config.fine_tune_type} adapts linear layers "
        "and embeddings only."
    )
