"""Low-rank (LoRA, DoRA) and full adapters, in the files that mlx-lm writes."""

from mlxlm_models.adapters.apply import apply_adapters
from mlxlm_models.adapters.config import AdapterConfig, read_adapter_config
from mlxlm_models.adapters.dora import DoRAEmbedding, DoRALinear
from mlxlm_models.adapters.lora import LoRAEmbedding, LoRALinear
from mlxlm_models.adapters.wrap import wrap

__all__ = [
    "AdapterConfig",
    "DoRAEmbedding",
    "DoRALinear",
    "LoRAEmbedding",
    "LoRALinear",
    "apply_adapters",
    "read_adapter_config",
    "wrap",
]
